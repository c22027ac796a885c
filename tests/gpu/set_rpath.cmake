# cmake -DFILE=PROGRAM -P set_rpath.cmake: makes the program look for libraries in lib/ beside it, and nowhere else.
file(RPATH_SET FILE "${FILE}" NEW_RPATH "$ORIGIN/lib")
