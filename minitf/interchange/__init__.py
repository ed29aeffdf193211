"""Models of other programs: Marian, Hugging Face Marian, fairseq and CTranslate2, read and written.

A file of another program is treated as hostile: every size and offset is checked before memory is allocated, nothing in
it is executed, and no path in it is followed.
"""
