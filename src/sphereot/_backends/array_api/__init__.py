"""The mathematics in array-API terms: the path of every array that the compiled kernel does not take."""

__all__: list[str] = []
