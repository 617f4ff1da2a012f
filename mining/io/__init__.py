"""Files: how they are read, checked, locked, written whole and renamed."""
