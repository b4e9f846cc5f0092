# What `cpack` makes: one .tar.gz to unpack anywhere, and three Debian packages (program, library, development) whose
# dependencies dpkg-shlibdeps finds. The description's first line is its summary. To /usr/lib/ARCHITECTURE they go where
# the build was configured with the prefix /usr (./dev package), to /usr/lib otherwise.
set(CPACK_GENERATOR "TGZ;DEB")
set(CPACK_PACKAGE_VENDOR "penstock")
set(CPACK_PACKAGE_CONTACT "penstock developers <penstock@penstock.invalid>")
set(CPACK_RESOURCE_FILE_LICENSE ${CMAKE_SOURCE_DIR}/LICENSE)
set(CPACK_STRIP_FILES ON)
set(CPACK_ARCHIVE_COMPONENT_INSTALL OFF)
string(TOLOWER "penstock-${PROJECT_VERSION}-${CMAKE_SYSTEM_NAME}-${CMAKE_SYSTEM_PROCESSOR}" CPACK_PACKAGE_FILE_NAME)

set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_COMPONENTS_GROUPING IGNORE)
set(CPACK_COMPONENTS_ALL program library development)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${CMAKE_BINARY_DIR})
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_PRE_BUILD_SCRIPTS ${CMAKE_SOURCE_DIR}/cmake/package_debian.cmake)

string(CONCAT about
  "It cuts a model's operator graph into pipeline stages, gives each stage\n"
  "to a process, and trains with 1F1B-family schedules. A run prints what was\n"
  "predicted beside what was measured; its numbers do not depend on the layout.")
set(CPACK_DEBIAN_PROGRAM_PACKAGE_NAME penstock)
set(CPACK_DEBIAN_PROGRAM_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PROGRAM_PACKAGE_SUGGESTS openmpi-bin)
set(CPACK_DEBIAN_PROGRAM_PACKAGE_DEPENDS "libpenstock${PST_SOVERSION} (= ${PROJECT_VERSION})")
set(CPACK_DEBIAN_PROGRAM_DESCRIPTION
  "pipeline-parallel training of large models, program\n${about}\n\nThe program, its manual, and a demo.")

set(CPACK_DEBIAN_LIBRARY_PACKAGE_NAME libpenstock${PST_SOVERSION})
set(CPACK_DEBIAN_LIBRARY_PACKAGE_SECTION libs)
set(control ${CMAKE_BINARY_DIR}/control)
file(WRITE ${control}/triggers "activate-noawait ldconfig\n")
file(WRITE ${control}/shlibs "libpenstock ${PST_SOVERSION} libpenstock${PST_SOVERSION} (>= ${PROJECT_VERSION})\n")
set(CPACK_DEBIAN_LIBRARY_PACKAGE_CONTROL_EXTRA ${control}/triggers ${control}/shlibs)
set(CPACK_DEBIAN_LIBRARY_DESCRIPTION
  "pipeline-parallel training of large models, library\n${about}\n\nThe library that programs load.")

set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_NAME libpenstock-dev)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SHLIBDEPS OFF)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS "libpenstock${PST_SOVERSION} (= ${PROJECT_VERSION})")
set(CPACK_DEBIAN_DEVELOPMENT_DESCRIPTION
  "pipeline-parallel training of large models, development files\n${about}\n\nHeaders, pkg-config file and CMake package.")
include(CPack)
