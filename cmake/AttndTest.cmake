# Test programs are compiled for a short build, most of which they are; what takes long to compute lies in libraries. With
# sanitizers, -O1 takes twice as long to compile as -O0.
if(ATTND_SANITIZE)
  set(ATTND_TEST_COMPILE_OPTIONS $<$<COMPILE_LANGUAGE:CXX>:-O0>)
else()
  set(ATTND_TEST_COMPILE_OPTIONS $<$<AND:$<COMPILE_LANGUAGE:CXX>,$<CONFIG:Release>>:-O1>)
endif()

# attnd_add_test(NAME sources... LIBS libraries... [LABELS labels...] [ARGS arguments...] [SERVES]): a GoogleTest program, run
# by ctest as one test. SERVES: it has servers, calls and deadlines; such tests run beside others, but never beside each other.
function(attnd_add_test name)
  cmake_parse_arguments(ARG "SERVES" "" "LIBS;LABELS;ARGS" ${ARGN})
  add_executable(${name} ${ARG_UNPARSED_ARGUMENTS})
  target_compile_options(${name} PRIVATE ${ATTND_TEST_COMPILE_OPTIONS})
  target_link_libraries(${name} PRIVATE ${ARG_LIBS} GTest::gmock GTest::gtest_main)
  add_test(NAME ${name} COMMAND ${name} ${ARG_ARGS})
  set_tests_properties(${name} PROPERTIES TIMEOUT 600 LABELS "${ARG_LABELS}")
  if(ARG_SERVES)
    set_tests_properties(${name} PROPERTIES RESOURCE_LOCK serves)
  endif()
endfunction()

# attnd_add_test_objects(NAME sources... LIBS libraries...): tests that several programs hold, compiled once.
function(attnd_add_test_objects name)
  cmake_parse_arguments(ARG "" "" "LIBS" ${ARGN})
  add_library(${name} OBJECT ${ARG_UNPARSED_ARGUMENTS})
  target_compile_options(${name} PRIVATE ${ATTND_TEST_COMPILE_OPTIONS})
  target_link_libraries(${name} PUBLIC ${ARG_LIBS} GTest::gmock)
endfunction()

# attnd_add_benchmark(NAME sources... LIBS libraries...): a Google Benchmark program; not run by ctest.
function(attnd_add_benchmark name)
  cmake_parse_arguments(ARG "" "" "LIBS" ${ARGN})
  add_executable(${name} ${ARG_UNPARSED_ARGUMENTS})
  target_link_libraries(${name} PRIVATE ${ARG_LIBS} benchmark::benchmark_main)
endfunction()
