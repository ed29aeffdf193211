"""What the book needs beyond Sphinx, MyST-NB and the theme."""
