"""Makes the paper: FOLDER/paper.pdf and FOLDER/paper.html.

usage: build.py FOLDER

Needs the package `typst` (`make paper` installs it in an environment of its own). The HTML of Typst
has no layout, so style.css is put into its head. Ends with status 1 and says where if it is not right.
"""

import pathlib
import sys

import typst

here = pathlib.Path(__file__).resolve().parent


def main() -> None:
    if len(sys.argv) != 2:
        sys.exit("usage: build.py FOLDER")
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    source, root = here / "paper.typ", here.parent
    try:
        typst.compile(source, output=folder / "paper.pdf", root=root)
        page = typst.compile(source, root=root, format="html").decode()
    except typst.TypstError as error:
        sys.exit(f"paper: {error.diagnostic or error.message}")
    style = f"<style>{(here / 'style.css').read_text()}</style></head>"
    (folder / "paper.html").write_text(page.replace("</head>", style, 1))
    print(f"paper: {folder / 'paper.pdf'}, {folder / 'paper.html'}")


main()
