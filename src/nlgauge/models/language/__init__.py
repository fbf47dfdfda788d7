"""Language models behind one interface, and what they write."""
