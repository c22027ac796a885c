# bastion_hub_rust: the Rust crate behind common/hub/ffi.h, built by cargo.
#
# All presets share one cargo folder, so that the crates compile once. Cargo's lock serializes
# concurrent builds. Each build tree copies the archive, so that ninja can compare its time stamp.
#
# RUSTC_BOOTSTRAP lets the crate, and no other, use one unstable feature: alloc_error_hook, with which
# budget.rs ends work that takes too much memory.
find_program(CARGO cargo HINTS $ENV{HOME}/.cargo/bin)
if(NOT CARGO)
  message(FATAL_ERROR "cargo is not on PATH: run deploy/local/setup.sh first")
endif()

set(HUB_RUST_DIR ${CMAKE_SOURCE_DIR}/common/hub/rust)
set(HUB_CARGO_DIR ${CMAKE_SOURCE_DIR}/build/cargo)
set(HUB_ARCHIVE ${CMAKE_BINARY_DIR}/libbastion_hub.a)
file(GLOB HUB_RUST_SOURCES CONFIGURE_DEPENDS ${HUB_RUST_DIR}/src/*.rs)

add_custom_command(
  OUTPUT ${HUB_ARCHIVE}
  COMMAND ${CMAKE_COMMAND} -E env CARGO_TARGET_DIR=${HUB_CARGO_DIR} RUSTC_BOOTSTRAP=bastion_hub
          ${CARGO} build --release --locked --quiet --manifest-path ${HUB_RUST_DIR}/Cargo.toml
  COMMAND ${CMAKE_COMMAND} -E copy ${HUB_CARGO_DIR}/release/libbastion_hub.a ${HUB_ARCHIVE}
  DEPENDS ${HUB_RUST_SOURCES} ${HUB_RUST_DIR}/Cargo.toml ${HUB_RUST_DIR}/Cargo.lock
  COMMENT "Building the Rust part of common/hub (takes minutes the first time)"
  USES_TERMINAL VERBATIM)
add_custom_target(bastion_hub_cargo DEPENDS ${HUB_ARCHIVE})

add_library(bastion_hub_rust STATIC IMPORTED GLOBAL)
set_target_properties(bastion_hub_rust PROPERTIES IMPORTED_LOCATION ${HUB_ARCHIVE})
target_link_libraries(bastion_hub_rust INTERFACE Threads::Threads ${CMAKE_DL_LIBS} m gcc_s)
add_dependencies(bastion_hub_rust bastion_hub_cargo)
