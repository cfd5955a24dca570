# Run by CPack when the tree to pack is complete: adds the system's libraries and their licences.
execute_process(COMMAND "${CMAKE_CURRENT_LIST_DIR}/../tools/bundle_libraries.sh" "${CPACK_TEMPORARY_INSTALL_DIRECTORY}"
  COMMAND_ERROR_IS_FATAL ANY)
