# cmake --install BUILD --component bastion --prefix P: the programs and systemd's units, as a tree that
# may be moved. The programs need Debian 12's shared libraries. A CUDA build brings those of the wheels
# along, in lib/bastion. cpack -G DEB makes a package of the same files.
include(GNUInstallDirs)

# The programs of this build need libtorch from build/venv.
if(BASTION_TORCH)
  return()
endif()

set(programs bastion-orchestrator bastion-verifier bastion-drafter bastionctl bastion-bench bastion-doctor
             bastion-train bastion-verify-exactness)
install(TARGETS ${programs} RUNTIME COMPONENT bastion)
install(DIRECTORY deploy/systemd/ DESTINATION lib/systemd/system COMPONENT bastion
        PATTERN examples EXCLUDE)
install(DIRECTORY deploy/systemd/examples DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT bastion)
# License texts of what is inside the programs. Needs Python, which the build of programs does without.
find_package(Python3 COMPONENTS Interpreter)
if(Python3_FOUND)
  cmake_path(GET CARGO PARENT_PATH cargo_folder)
  set(licenses ${CMAKE_BINARY_DIR}/third-party-licenses.txt)
  install(CODE "execute_process(COMMAND ${CMAKE_COMMAND} -E env --modify PATH=path_list_append:${cargo_folder}
                  ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/deploy/sbom.py --licenses --out ${licenses}
                  OUTPUT_QUIET COMMAND_ERROR_IS_FATAL ANY)" COMPONENT bastion)
  install(FILES ${licenses} DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT bastion)
endif()
install(FILES CHANGELOG.md DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT bastion)
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR} RENAME copyright COMPONENT bastion)

if(BASTION_WITH_CUDA)
  set(libraries libcudart.so.13 libcublasLt.so.13)
  list(TRANSFORM libraries PREPEND ${CUDA_DIR}/lib/ OUTPUT_VARIABLE files)
  install(PROGRAMS ${files} DESTINATION lib/bastion COMPONENT bastion)
  file(GLOB license ${BASTION_VENV}/lib/python3*/site-packages/nvidia_cublas-*.dist-info/licenses/License.txt)
  install(FILES ${license} DESTINATION ${CMAKE_INSTALL_DOCDIR} RENAME nvidia-license.txt COMPONENT bastion)
endif()

set(CPACK_PACKAGE_NAME bastion)
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "Serving system for language models with lossless speculation")
set(CPACK_PACKAGE_CONTACT "The bastion authors <bastion@localhost>")
set(CPACK_COMPONENTS_ALL bastion)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_BASTION_PACKAGE_NAME bastion)
set(CPACK_DEBIAN_BASTION_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
# The package of OpenTelemetry does not say which version its libraries need.
set(CPACK_DEBIAN_PACKAGE_DEPENDS "opentelemetry-cpp (>= 1.19), opentelemetry-cpp (<< 1.20)")
set(CPACK_DEBIAN_PACKAGE_DESCRIPTION "Three services decode trees of drafted tokens: bastion-orchestrator takes requests, bastion-drafter
runs a small draft model, and bastion-verifier runs the target model. The output is the same as without
drafts. The package has systemd units for one host; see /usr/share/doc/bastion/examples.")
include(CPack)
