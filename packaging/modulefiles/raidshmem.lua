-- Lmod: module use PREFIX/share/raidshmem/modulefiles; module load raidshmem
-- The prefix is found from this file, so that an installation can be moved.

local prefix = myFileName():gsub("/[^/]+/[^/]+/[^/]+/[^/]+/[^/]+$", "")

whatis("OpenSHMEM whose programs survive the death of processes and nodes")
help("raidshmem: oshcc, oshc++, oshrun, oshinfo, oshreport, oshadvise; see man raidshmem")
-- One OpenSHMEM or MPI at a time: they have programs of equal names.
conflict("openmpi", "mpich", "sos")

setenv("RAIDSHMEM_HOME", prefix)
prepend_path("PATH", pathJoin(prefix, "bin"))
prepend_path("MANPATH", pathJoin(prefix, "share/man"))
prepend_path("PKG_CONFIG_PATH", pathJoin(prefix, "@LIB@/pkgconfig"))
prepend_path("CMAKE_PREFIX_PATH", prefix)
