# femtobarn's ntuples and event store for C and C++17: the target femtobarn::femtobarn.
include(CMakeFindDependencyMacro)
find_dependency(Threads)

get_filename_component(_femtobarn_prefix "${CMAKE_CURRENT_LIST_DIR}/@TO_PREFIX@" ABSOLUTE)
if(NOT TARGET femtobarn::femtobarn)
    add_library(femtobarn::femtobarn SHARED IMPORTED)
    set_target_properties(femtobarn::femtobarn PROPERTIES
        IMPORTED_LOCATION "${_femtobarn_prefix}/@LIBDIR@/@SONAME@"
        IMPORTED_SONAME "@SONAME@"
        INTERFACE_INCLUDE_DIRECTORIES "${_femtobarn_prefix}/@INCLUDEDIR@"
        INTERFACE_COMPILE_FEATURES cxx_std_17
        INTERFACE_LINK_LIBRARIES Threads::Threads)
endif()
