"""Where the parts become a running system: the command line, the single process, and the cluster's files."""
