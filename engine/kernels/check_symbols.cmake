# Fails when an object for one instruction set leaves a function that the linker may share with the
# rest of the program: the copy it keeps could be the one that this machine cannot run.
execute_process(COMMAND ${NM} -A -C ${ARCHIVE} OUTPUT_VARIABLE symbols COMMAND_ERROR_IS_FATAL ANY)
string(REGEX MATCHALL "[^\n]*(loops_avx|tiles_vnni)[^\n]* [WVu] [^\n]*" shared "${symbols}")
if(NOT symbols MATCHES "loops_avx512")
  message(FATAL_ERROR "no object for AVX-512 in ${ARCHIVE}")
endif()
if(shared)
  message(FATAL_ERROR "shared symbols: ${shared}")
endif()
