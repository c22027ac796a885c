# The package bastion-client: defines bastion::client.
cmake_minimum_required(VERSION 3.25)
include(${CMAKE_CURRENT_LIST_DIR}/BastionGrpc.cmake)
include(${CMAKE_CURRENT_LIST_DIR}/bastion-client-targets.cmake)
