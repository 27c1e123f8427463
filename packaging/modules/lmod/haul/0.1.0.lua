-- Lmod module of haul.

-- Where haul is installed (the --prefix of `cargo xtask install`): fill in.
local prefix = "@PREFIX@"

help([[haul copies file trees as fast as the hardware allows, on one host or with many by MPI.
See haul(1), or haul COMMAND --help.]])

whatis("Name: haul")
whatis("Version: 0.1.0")
whatis("Description: copies file trees, on one host or with many by MPI")

prepend_path("PATH", pathJoin(prefix, "bin"))
prepend_path("MANPATH", pathJoin(prefix, "share/man"))
-- An empty entry stands for the default path, which man(1) leaves out if MANPATH is set.
append_path("MANPATH", "")
