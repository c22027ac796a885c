# cmake -DFILE=PROGRAM -P set_rpath.cmake: the program looks for libraries in lib/ beside it, only.
file(RPATH_SET FILE "${FILE}" NEW_RPATH "$ORIGIN/lib")
