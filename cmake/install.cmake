# What `cmake --install` puts where: the program, libpenstock with headers, pkg-config file and CMake package, documents
# and the demo. The tree may be moved as a whole: the program finds its commands, they the library, and
# the two package files their prefix, by paths relative to themselves. The static libraries of the folders stay behind.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

# Components: program, library (what a linked program needs), development.
cmake_path(RELATIVE_PATH CMAKE_INSTALL_FULL_LIBDIR BASE_DIRECTORY ${CMAKE_INSTALL_FULL_BINDIR}
  OUTPUT_VARIABLE lib_from_bin)
target_compile_definitions(penstock_cli PRIVATE PST_COMMANDS_FROM_BIN="${lib_from_bin}/penstock/penstock-commands.so")
install(TARGETS penstock_cli RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT program)
if(NOT PST_SANITIZE) # a build that is not for installing
  set_target_properties(penstock_commands PROPERTIES INSTALL_RPATH "$ORIGIN/..")
  install(TARGETS penstock_commands LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/penstock COMPONENT program)
endif()
install(TARGETS penstock EXPORT penstockTargets
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT library NAMELINK_COMPONENT development
  INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(DIRECTORY include/penstock DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT development
  FILES_MATCHING PATTERN "*.h")

set(config_folder ${CMAKE_INSTALL_LIBDIR}/cmake/penstock)
install(EXPORT penstockTargets NAMESPACE penstock:: DESTINATION ${config_folder} COMPONENT development)
configure_package_config_file(cmake/penstockConfig.cmake.in ${CMAKE_BINARY_DIR}/penstockConfig.cmake
  INSTALL_DESTINATION ${config_folder})
# While the version is 0.x, a minor version may change the interface.
write_basic_package_version_file(${CMAKE_BINARY_DIR}/penstockConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/penstockConfig.cmake ${CMAKE_BINARY_DIR}/penstockConfigVersion.cmake
  DESTINATION ${config_folder} COMPONENT development)

cmake_path(RELATIVE_PATH CMAKE_INSTALL_FULL_INCLUDEDIR BASE_DIRECTORY ${CMAKE_INSTALL_PREFIX}
  OUTPUT_VARIABLE pc_include)
cmake_path(RELATIVE_PATH CMAKE_INSTALL_FULL_LIBDIR BASE_DIRECTORY ${CMAKE_INSTALL_PREFIX} OUTPUT_VARIABLE pc_lib)
cmake_path(RELATIVE_PATH CMAKE_INSTALL_PREFIX BASE_DIRECTORY ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig
  OUTPUT_VARIABLE pc_prefix)
configure_file(cmake/penstock.pc.in ${CMAKE_BINARY_DIR}/penstock.pc @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/penstock.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT development)

install(FILES README.md CONTRIBUTING.md DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT program)
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT program RENAME copyright)
install(DIRECTORY examples DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT development)
install(DIRECTORY docs DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT program)

# The demo trains on the project's source text, which lies beside the run file as it does in the source tree.
install(FILES demo/demo.yaml DESTINATION ${CMAKE_INSTALL_DATADIR}/penstock COMPONENT program)
foreach(folder src comm kernels models partition pipeline tests)
  file(GLOB_RECURSE texts RELATIVE ${CMAKE_SOURCE_DIR} CONFIGURE_DEPENDS ${folder}/*.[ch])
  foreach(text ${texts})
    cmake_path(GET text PARENT_PATH beside)
    install(FILES ${text} DESTINATION ${CMAKE_INSTALL_DATADIR}/penstock/${beside} COMPONENT program)
  endforeach()
endforeach()

# Manual pages and completion are written by the program itself, from the rows that --help prints.
if(NOT PST_SANITIZE)
  set(share ${CMAKE_BINARY_DIR}/share)
  add_custom_command(OUTPUT ${share}/stamp
    COMMAND ${CMAKE_COMMAND} -E rm -rf ${share}
    COMMAND penstock_cli help --write ${share}
    COMMAND ${CMAKE_COMMAND} -E touch ${share}/stamp
    DEPENDS penstock_cli penstock COMMENT "Writing manual pages and completion" VERBATIM)
  add_custom_target(penstock_share ALL DEPENDS ${share}/stamp)
  install(DIRECTORY ${share}/man/ DESTINATION ${CMAKE_INSTALL_MANDIR} COMPONENT program)
  install(DIRECTORY ${share}/bash-completion DESTINATION ${CMAKE_INSTALL_DATADIR} COMPONENT program)
endif()
