"""The stages. Each module holds the typed records of its stages, the functions that do their steps,
and one function that plans and runs them (`read_corpus`, `drop_duplicates`, `encode_sides`, …)."""
