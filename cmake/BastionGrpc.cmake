# Finds the libraries of the C++ SDK: threads, Abseil, Protobuf and gRPC. Defines bastion::grpc, which
# is the project's gRPC::grpc++ if it has one, else pkg-config's grpc++, else that of gRPC's CMake
# package. Debian's CMake package of gRPC needs packages that Debian does not install with it.
#
# The installed package bastion-client includes this file, too.
find_package(Threads REQUIRED GLOBAL)
find_package(absl REQUIRED GLOBAL)
# Protobuf's own package knows which libraries newer versions need. Debian 12 has only CMake's module.
find_package(Protobuf CONFIG QUIET GLOBAL)
if(NOT TARGET protobuf::libprotobuf)
  find_package(Protobuf MODULE REQUIRED GLOBAL)
endif()

if(NOT TARGET bastion::grpc)
  add_library(bastion::grpc INTERFACE IMPORTED GLOBAL)
  find_package(PkgConfig QUIET)
  if(PkgConfig_FOUND AND NOT TARGET gRPC::grpc++)
    pkg_check_modules(BASTION_GRPC QUIET IMPORTED_TARGET GLOBAL grpc++)
  endif()
  if(TARGET PkgConfig::BASTION_GRPC)
    target_link_libraries(bastion::grpc INTERFACE PkgConfig::BASTION_GRPC)
  else()
    if(NOT TARGET gRPC::grpc++)
      find_package(gRPC CONFIG REQUIRED GLOBAL)
    endif()
    target_link_libraries(bastion::grpc INTERFACE gRPC::grpc++)
  endif()
endif()
