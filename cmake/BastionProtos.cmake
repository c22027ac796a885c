# bastion_proto_library(NAME … PROTOS a.proto … [ROOT folder]): C++ messages and gRPC stubs.
# Paths in PROTOS are relative to ROOT. Default: the root of the project.
find_program(PROTOC protoc REQUIRED)
find_program(GRPC_CPP_PLUGIN grpc_cpp_plugin REQUIRED)

function(bastion_proto_library)
  cmake_parse_arguments(ARG "" "NAME;ROOT" "PROTOS" ${ARGN})
  if(NOT ARG_ROOT)
    set(ARG_ROOT ${CMAKE_SOURCE_DIR})
  endif()
  set(generated)
  foreach(proto ${ARG_PROTOS})
    string(REPLACE ".proto" "" stem ${proto})
    set(outputs)
    foreach(extension .pb.cc .pb.h .grpc.pb.cc .grpc.pb.h)
      list(APPEND outputs ${CMAKE_BINARY_DIR}/generated/${stem}${extension})
    endforeach()
    add_custom_command(
      OUTPUT ${outputs}
      COMMAND ${CMAKE_COMMAND} -E make_directory ${CMAKE_BINARY_DIR}/generated
      COMMAND ${PROTOC} -I ${ARG_ROOT} --cpp_out=${CMAKE_BINARY_DIR}/generated
              --grpc_out=${CMAKE_BINARY_DIR}/generated
              --plugin=protoc-gen-grpc=${GRPC_CPP_PLUGIN} ${proto}
      DEPENDS ${ARG_ROOT}/${proto}
      VERBATIM)
    list(APPEND generated ${outputs})
  endforeach()
  bastion_generates(${ARG_NAME} ${generated})
  add_library(${ARG_NAME} STATIC ${generated})
  target_include_directories(${ARG_NAME} SYSTEM PUBLIC ${CMAKE_BINARY_DIR}/generated)
  target_link_libraries(${ARG_NAME} PUBLIC protobuf::libprotobuf PkgConfig::GRPCPP
                                           absl::synchronization)
  # Generated code has warnings that this project cannot fix.
  target_compile_options(${ARG_NAME} PRIVATE -w)
endfunction()
