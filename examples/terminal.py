#!/usr/bin/env python3
"""Records commands in a terminal, and writes what they print as an SVG.

usage: examples/terminal.py FILE COMMAND...

Each COMMAND runs in a shell, in a terminal of 112 columns. docs/terminal.svg, which README.md
shows, was made by:

    export PATH=$PWD/target/release:$PATH
    examples/terminal.py docs/terminal.svg 'oshcc -o count examples/count.c' \
        'oshrun -n 4 --mode raid5 --nodes 4 --spares 1 --kill-node 3@9 ./count'

Ends with the status of the first command that fails.
"""
import fcntl
import html
import os
import pty
import re
import struct
import sys
import termios

COLUMNS = 112
# Pixels of a character, of a line, and around the text.
WIDE, HIGH, EDGE = 7.8, 19, 14
COLOURS = {31: "#f47067", 32: "#6bc46d", 33: "#daaa3f", 36: "#56b6c2"}
INK, PAGE = "#d7dade", "#1c2026"


def record(command):
    """Runs a command in a terminal; returns its status and its output."""
    child, terminal = pty.fork()
    if child == 0:
        os.environ["TERM"] = "xterm-256color"
        os.environ.pop("NO_COLOR", None)
        os.execvp("sh", ["sh", "-c", command])
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, COLUMNS, 0, 0))
    output = b""
    while True:
        try:
            part = os.read(terminal, 4096)
        except OSError:  # Linux reports the end of the other side as an error
            break
        if not part:
            break
        output += part
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return status, output.decode()


def rows(output):
    """Splits output into rows of characters, each with its colour, as the terminal wraps them."""
    all_rows, colour = [], INK
    for line in output.replace("\r", "").rstrip("\n").split("\n"):
        row = []
        for escape, character in re.findall(r"\x1b\[([0-9;]*)m|(.)", line):
            if character:
                row.append((character, colour))
            else:
                codes = [int(code or 0) for code in escape.split(";")]
                colour = next((COLOURS[code] for code in codes if code in COLOURS), INK)
        all_rows += [row[at : at + COLUMNS] for at in range(0, max(len(row), 1), COLUMNS)]
    return all_rows


def draw(shown):
    """Returns the SVG of rows of coloured characters."""
    width, height = COLUMNS * WIDE + 2 * EDGE, len(shown) * HIGH + 2 * EDGE
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height}" '
        f'font-family="ui-monospace, Menlo, Consolas, DejaVu Sans Mono, monospace" '
        f'font-size="13" role="img" aria-label="A terminal">',
        f'<rect width="100%" height="100%" rx="8" fill="{PAGE}"/>',
    ]
    for number, row in enumerate(shown):
        at = 0
        while at < len(row):
            colour = row[at][1]
            end = next((i for i in range(at, len(row)) if row[i][1] != colour), len(row))
            text = "".join(character for character, _ in row[at:end])
            if text.strip():
                x, y = EDGE + at * WIDE, EDGE + number * HIGH + 14
                lines.append(
                    f'<text x="{x:.1f}" y="{y}" fill="{colour}" xml:space="preserve" '
                    f'textLength="{len(text) * WIDE:.1f}">{html.escape(text, quote=False)}</text>'
                )
            at = end
    return "\n".join(lines + ["</svg>", ""])


def main():
    """Records the commands of the command line, and writes the file."""
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    shown = []
    for command in sys.argv[2:]:
        shown += rows(f"\x1b[36m$\x1b[0m {command}")
        status, output = record(command)
        shown += rows(output) if output else []
        if status != 0:
            print(output, file=sys.stderr)
            sys.exit(status)
    with open(sys.argv[1], "w", encoding="utf-8") as file:
        file.write(draw(shown))


if __name__ == "__main__":
    main()
