"""Arrays of any library: which library, validation of arguments, random numbers."""

__all__: list[str] = []
