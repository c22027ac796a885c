# bastion_proto_library(NAME … PROTOS a.proto … [ROOT folder]): C++ messages and gRPC stubs. Paths in
# PROTOS are relative to ROOT, and headers have the same paths: bastion/v1/generation.pb.h. Default
# for ROOT: the folder protos. Include BastionGrpc first.
cmake_path(SET BASTION_PROTOS NORMALIZE ${CMAKE_CURRENT_LIST_DIR}/../protos)
if(NOT TARGET protobuf::protoc)
  message(FATAL_ERROR "no protoc; install it, e.g. Debian's package protobuf-compiler")
endif()
if(TARGET gRPC::grpc_cpp_plugin)
  set(GRPC_CPP_PLUGIN $<TARGET_FILE:gRPC::grpc_cpp_plugin>)
else()
  find_program(GRPC_CPP_PLUGIN grpc_cpp_plugin REQUIRED)
endif()

function(bastion_proto_library)
  cmake_parse_arguments(ARG "" "NAME;ROOT" "PROTOS" ${ARGN})
  if(NOT ARG_ROOT)
    set(ARG_ROOT ${BASTION_PROTOS})
  endif()
  set(folder ${PROJECT_BINARY_DIR}/generated)
  file(MAKE_DIRECTORY ${folder})
  set(sources)
  set(headers)
  foreach(proto ${ARG_PROTOS})
    string(REPLACE ".proto" "" stem ${folder}/${proto})
    set(outputs ${stem}.pb.cc ${stem}.grpc.pb.cc)
    list(APPEND sources ${outputs})
    list(APPEND headers ${stem}.pb.h ${stem}.grpc.pb.h)
    add_custom_command(
      OUTPUT ${outputs} ${stem}.pb.h ${stem}.grpc.pb.h
      COMMAND protobuf::protoc -I ${ARG_ROOT} --cpp_out=${folder} --grpc_out=${folder}
              --plugin=protoc-gen-grpc=${GRPC_CPP_PLUGIN} ${proto}
      DEPENDS ${ARG_ROOT}/${proto}
      VERBATIM)
  endforeach()
  if(COMMAND bastion_generates)
    bastion_generates(${ARG_NAME} ${sources} ${headers})
  endif()
  add_library(${ARG_NAME} STATIC ${sources})
  target_sources(${ARG_NAME} PUBLIC FILE_SET HEADERS BASE_DIRS ${folder} FILES ${headers})
  target_include_directories(${ARG_NAME} SYSTEM PUBLIC $<BUILD_INTERFACE:${folder}>)
  target_link_libraries(${ARG_NAME} PUBLIC protobuf::libprotobuf bastion::grpc
                                           absl::synchronization)
  # Generated code has warnings that this project cannot fix.
  target_compile_options(${ARG_NAME} PRIVATE -w)
endfunction()
