"""The command line: `minitf train`, `translate`, `bleu`, `parse`, `report` and `presets`."""
