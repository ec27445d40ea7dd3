"""`oncelog log`: the files of a broker that does not run."""
