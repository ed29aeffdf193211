"""Models of other programs: Marian, Hugging Face Marian, fairseq and CTranslate2, read and written."""
