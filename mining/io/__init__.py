"""How files are read, checked, written whole and renamed."""
