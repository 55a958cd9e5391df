"""What a release is made with: everything but publishing it, which a person does.

build       a wheel and an sdist out of a folder of sources, the same bytes each time
versions    the releases there have been, and their sources
__main__    make release: check, build, try, and say what is left to do
"""
