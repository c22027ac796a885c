# bastion_embed_file(TARGET FILE CONSTANT): compiles a file into a program.
#
#   bastion_embed_file(client_ctl_explain explain_page.html kExplainPage)
#
# generates embedded/explain_page.html.h, which defines `inline constexpr char kExplainPage[]` in
# namespace bastion: the bytes of the file and a terminating zero. FILE is relative to the current
# source folder. The header is generated again when the file changes.
function(bastion_embed_file target file constant)
  set(folder ${CMAKE_CURRENT_BINARY_DIR}/embedded_files)
  set(header ${folder}/embedded/${file}.h)
  set(source ${CMAKE_CURRENT_SOURCE_DIR}/${file})
  set(script ${CMAKE_SOURCE_DIR}/cmake/embed_file.cmake)
  add_custom_command(
    OUTPUT ${header}
    COMMAND ${CMAKE_COMMAND} -D SOURCE=${source} -D HEADER=${header} -D CONSTANT=${constant}
            -P ${script}
    DEPENDS ${source} ${script}
    VERBATIM)
  bastion_generates(${target}_${constant} ${header})
  target_sources(${target} PRIVATE ${header})
  target_include_directories(${target} PRIVATE ${folder})
endfunction()
