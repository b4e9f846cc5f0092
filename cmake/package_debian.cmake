# Run by cpack on the staged files of each generator: what Debian's policy asks of its packages and an archive does not
# need. Libraries there are found without a path of their own, manual pages are compressed, and every package has
# a copyright and a changelog.
if(NOT CPACK_GENERATOR STREQUAL "DEB")
  return()
endif()
string(TIMESTAMP now "%a, %d %b %Y %H:%M:%S +0000" UTC) # SOURCE_DATE_EPOCH where that is set
foreach(component ${CPACK_COMPONENTS_ALL})
  string(TOUPPER ${component} upper)
  set(package ${CPACK_DEBIAN_${upper}_PACKAGE_NAME})
  set(root ${CPACK_TEMPORARY_DIRECTORY}/${component}/usr)
  file(GLOB objects LIST_DIRECTORIES false ${root}/lib/*.so.* ${root}/lib/*/*.so* ${root}/lib/*/*/*.so)
  foreach(object ${objects})
    if(IS_SYMLINK ${object})
      continue()
    endif()
    file(RPATH_REMOVE FILE ${object})
  endforeach()
  set(doc ${root}/share/doc/${package})
  configure_file(${CPACK_RESOURCE_FILE_LICENSE} ${doc}/copyright COPYONLY)
  file(WRITE ${doc}/changelog
    "${package} (${CPACK_PACKAGE_VERSION}) unstable; urgency=medium\n\n  * Version ${CPACK_PACKAGE_VERSION}.\n\n\
 -- ${CPACK_PACKAGE_CONTACT}  ${now}\n")
  file(GLOB pages ${root}/share/man/man*/*.[1-9])
  execute_process(COMMAND gzip -9nf ${doc}/changelog ${pages} COMMAND_ERROR_IS_FATAL ANY)
endforeach()
