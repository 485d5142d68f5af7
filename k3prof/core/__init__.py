"""Pure records and arithmetic: no files, processes, sockets, clocks or printing."""
