"""The machine below a program: process, messages, files, environment."""
