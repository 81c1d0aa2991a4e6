"""A terminal emulator with a few escape sequences, enough to reproduce the screen that a person would see.

Knows: printing with wrap, CR LF BS, IND, save and restore of the cursor, cursor motion, erasing, the scrolling
region, the other page, colours (ignored). Any other sequence is an error, so that a test notices sequences that real
terminals might not support.
"""

import re

CSI = re.compile(r"\x1b\[([?\d;]*)([A-Za-z])")


class Terminal:
    def __init__(self, rows, columns):
        self.rows, self.columns = rows, columns
        self.screen = [[" "] * columns for _ in range(rows)]
        self.scrolled = []  # lines that went off the top
        self.row = self.column = 0
        self.saved = (0, 0)
        self.top, self.bottom = 0, rows - 1
        self.main = None
        self.cursor_hidden = False
        self.pending = ""

    def lines(self):
        return ["".join(line).rstrip() for line in self.screen]

    def text(self):
        return "\n".join(self.scrolled + self.lines())

    def index(self):
        if self.row == self.bottom:
            if self.top == 0 and self.main is None:
                self.scrolled.append("".join(self.screen[0]).rstrip())
            del self.screen[self.top]
            self.screen.insert(self.bottom, [" "] * self.columns)
        elif self.row < self.rows - 1:
            self.row += 1

    def put(self, char):
        if self.column == self.columns:
            self.column = 0
            self.index()
        self.screen[self.row][self.column] = char
        self.column += 1

    def control(self, private, numbers, letter):
        n = numbers[0] if numbers else 0
        if private:
            self.page(n, letter)
        elif letter == "A":
            self.row = max(self.row - max(n, 1), 0)
        elif letter in "Hf":
            at = (numbers + [1, 1])[:2]
            self.row = min(max(at[0], 1), self.rows) - 1
            self.column = min(max(at[1], 1), self.columns) - 1
        elif letter == "r":
            self.top, self.bottom = (numbers[0] - 1, numbers[1] - 1) if len(numbers) == 2 else (0, self.rows - 1)
            self.row = self.column = 0
        elif letter == "K":
            begin, end = (0, self.columns) if n == 2 else (self.column, self.columns)
            self.screen[self.row][begin:end] = [" "] * (end - begin)
        elif letter == "J" and n == 0:
            self.screen[self.row][self.column:] = [" "] * (self.columns - self.column)
            for row in range(self.row + 1, self.rows):
                self.screen[row] = [" "] * self.columns
        elif letter != "m":
            raise ValueError(f"unknown sequence CSI {numbers} {letter}")

    def page(self, n, letter):
        if n == 25:
            self.cursor_hidden = letter == "l"
        elif n == 1049 and letter == "h":
            self.main = (self.screen, self.row, self.column)
            self.screen = [[" "] * self.columns for _ in range(self.rows)]
        elif n == 1049:
            self.screen, self.row, self.column = self.main
            self.main = None
        else:
            raise ValueError(f"unknown mode {n}")

    def feed(self, text):
        text, self.pending = self.pending + text, ""
        i = 0
        while i < len(text):
            c = text[i]
            if c == "\x1b":
                match = CSI.match(text, i)
                if match:
                    private = match[1].startswith("?")
                    numbers = [int(n or 0) for n in match[1].lstrip("?").split(";")] if match[1] else []
                    self.control(private, numbers, match[2])
                    i = match.end()
                    continue
                if len(text) - i < 2 or (text[i + 1] == "[" and len(text) - i < 16):
                    self.pending = text[i:]
                    return
                code = text[i + 1]
                if code == "7":
                    self.saved = (self.row, self.column)
                elif code == "8":
                    self.row, self.column = self.saved
                elif code == "D":
                    self.index()
                else:
                    raise ValueError(f"unknown sequence ESC {code!r}")
                i += 2
                continue
            if c == "\n":
                self.index()
            elif c == "\r":
                self.column = 0
            elif c == "\b":
                self.column = max(self.column - 1, 0)
            elif c >= " ":
                self.put(c)
            i += 1
