//! What people and programs see: data on stdout, talk on stderr.
//!
//! A terminal gets nothing that would steer it, whoever wrote it ([`crate::terminal`]); a pipe or file gets data as it is.
//!
//! Nothing here panics when the reader goes away: writing to stdout returns an error that `main` recognises as a closed
//! pipe, and writing to stderr is best effort.

use std::borrow::Cow;
use std::fmt::Display;
use std::io::{self, IsTerminal, Write};

use clap::Args;
use comfy_table::{ContentArrangement, Table, presets};
use serde::Serialize;

use crate::stderr;
use crate::terminal::{self, Keep};

/// Longest text in a cell of a list; `show` has the whole of it.
const CELL_CHARS_MAX: usize = 60;

/// The flags every command has.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct OutputArgs {
    /// Print JSON for programs: one object, or one object per line for lists
    #[arg(long, global = true, display_order = 900)]
    json: bool,
    /// Say nothing on stderr but errors
    #[arg(long, short, global = true, display_order = 901)]
    quiet: bool,
    /// Never use colour (also: the environment variable NO_COLOR)
    #[arg(long, global = true, display_order = 902)]
    no_color: bool,
}

/// Where a command's words go and in which form.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Output {
    json: bool,
    quiet: bool,
    on_terminal: bool,
    stdout_color: bool,
    stderr_color: bool,
}

impl Output {
    pub(crate) fn new(args: OutputArgs) -> Self {
        let wanted = !args.no_color && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        let on_terminal = io::stdout().is_terminal();
        Output {
            json: args.json,
            quiet: args.quiet,
            on_terminal,
            stdout_color: wanted && on_terminal,
            stderr_color: wanted && io::stderr().is_terminal(),
        }
    }

    /// True if programs read the output.
    pub(crate) fn is_json(&self) -> bool {
        self.json
    }

    pub(crate) fn is_quiet(&self) -> bool {
        self.quiet
    }

    /// True if stderr takes colour.
    pub(crate) fn has_stderr_color(&self) -> bool {
        self.stderr_color
    }

    /// True if someone looks at stderr and wants to.
    pub(crate) fn shows_progress(&self) -> bool {
        !self.quiet && !self.json && io::stderr().is_terminal()
    }

    /// One line of data.
    pub(crate) fn line(&self, text: impl Display) -> io::Result<()> {
        self.text(&format!("{text}\n"))
    }

    /// Data that brings its own line ends.
    pub(crate) fn text(&self, text: &str) -> io::Result<()> {
        self.bytes(text.as_bytes())
    }

    /// Data as it is; on a terminal without what would steer it.
    pub(crate) fn bytes(&self, bytes: &[u8]) -> io::Result<()> {
        self.write(&self.shown(bytes))
    }

    /// Data as it is shown.
    fn shown<'b>(&self, bytes: &'b [u8]) -> Cow<'b, [u8]> {
        if self.on_terminal { terminal::clean_bytes(bytes) } else { Cow::Borrowed(bytes) }
    }

    /// What is fit for a terminal already, colours and all.
    fn write(&self, bytes: &[u8]) -> io::Result<()> {
        let mut stdout = io::stdout().lock();
        stdout.write_all(bytes)?;
        stdout.flush()
    }

    /// One JSON object on one line.
    pub(crate) fn json(&self, value: &impl Serialize) -> io::Result<()> {
        self.json_lines(std::iter::once(value))
    }

    /// One JSON object per line, written at once.
    pub(crate) fn json_lines<T: Serialize>(&self, values: impl IntoIterator<Item = T>) -> io::Result<()> {
        let mut lines = String::new();
        for value in values {
            lines.push_str(&serde_json::to_string(&value)?);
            lines.push('\n');
        }
        let lines = if self.on_terminal { terminal::escape_json(&lines) } else { Cow::Borrowed(&lines[..]) };
        self.write(lines.as_bytes())
    }

    /// A table; `header` may be empty.
    pub(crate) fn table(&self, header: &[&str], rows: Vec<Vec<Cell>>) -> io::Result<()> {
        self.write(render(header, rows, self.stdout_color).as_bytes())
    }

    /// True if what is shown is drawn anew again and again, because people look at a terminal.
    pub(crate) fn is_redrawn(&self) -> bool {
        !self.json && self.on_terminal
    }

    /// Makes room for the next look at the same thing there.
    pub(crate) fn clear(&self) -> io::Result<()> {
        if self.is_redrawn() { self.write(b"\x1b[H\x1b[2J") } else { Ok(()) }
    }

    /// A remark on stderr, unless people asked for quiet.
    pub(crate) fn note(&self, text: impl Display) {
        if !self.quiet {
            self.talk(Tone::Dim, "note", &text.to_string());
        }
    }

    /// Something to mend that stops nothing, on stderr, unless people asked for quiet.
    pub(crate) fn warning(&self, text: impl Display) {
        if !self.quiet {
            self.talk(Tone::Mild, "warning", &text.to_string());
        }
    }

    /// An error on stderr, always.
    pub(crate) fn error(&self, text: impl Display) {
        self.talk(Tone::Bad, "error", &text.to_string());
    }

    fn talk(&self, tone: Tone, label: &str, text: &str) {
        let label = format!("{label}:");
        let label = if self.stderr_color { format!("{}{label}{RESET}", tone.code()) } else { label };
        stderr::write_line(&format!("{label} {}", clean(text, Keep::LineEnds)));
    }
}

/// How a word sounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tone {
    Plain,
    Good,
    Mild,
    Bad,
    Dim,
}

const RESET: &str = "\x1b[0m";
/// Stands for the end of a tone while a table is laid out; see [`Tone::mark`].
const RESET_MARK: char = '\u{2064}';

impl Tone {
    /// The tone of a job's state.
    pub(crate) fn of_state(state: &str) -> Tone {
        match state {
            "completed" => Tone::Good,
            "running" | "retryable" => Tone::Mild,
            "dead" => Tone::Bad,
            "cancelled" | "scheduled" => Tone::Dim,
            _ => Tone::Plain,
        }
    }

    const fn code(self) -> &'static str {
        match self {
            Tone::Plain => "",
            Tone::Good => "\x1b[32m",
            Tone::Mild => "\x1b[33m",
            Tone::Bad => "\x1b[31m",
            Tone::Dim => "\x1b[2m",
        }
    }

    /// Escape codes would spoil the widths of a table, so cells carry a character without width in their place until
    /// the layout is done. [`clean`] keeps such characters out of what others wrote.
    const fn mark(self) -> Option<char> {
        match self {
            Tone::Plain => None,
            Tone::Good => Some('\u{2060}'),
            Tone::Mild => Some('\u{2061}'),
            Tone::Bad => Some('\u{2062}'),
            Tone::Dim => Some('\u{2063}'),
        }
    }
}

/// One cell of a table.
#[derive(Clone, Debug)]
pub(crate) struct Cell {
    text: String,
    tone: Tone,
}

impl Cell {
    pub(crate) fn toned(text: impl Display, tone: Tone) -> Self {
        Cell { text: text.to_string(), tone }
    }

    /// A job's state, in its tone.
    pub(crate) fn state(state: &str) -> Self {
        Cell::toned(state, Tone::of_state(state))
    }

    /// A text that may be long, cut for a list.
    pub(crate) fn cut(text: &str) -> Self {
        let line = clean(text, Keep::Nothing);
        match line.char_indices().nth(CELL_CHARS_MAX) {
            None => line.into(),
            Some((end, _)) => format!("{}…", &line[..end]).into(),
        }
    }
}

impl<T: Display> From<T> for Cell {
    fn from(value: T) -> Self {
        Cell::toned(value, Tone::Plain)
    }
}

fn render(header: &[&str], rows: Vec<Vec<Cell>>, color: bool) -> String {
    let mut table = Table::new();
    // Two spaces between columns and nothing else: easy to read, easy to cut.
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    if !header.is_empty() {
        table.set_header(header.to_vec());
    }
    for row in rows {
        table.add_row(row.into_iter().map(|cell| {
            let text = clean(&cell.text, Keep::LineEnds);
            match cell.tone.mark() {
                Some(mark) if color => format!("{mark}{text}{RESET_MARK}"),
                _ => text,
            }
        }));
    }
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    let mut text = String::new();
    for line in table.lines() {
        text.push_str(line.trim_end());
        text.push('\n');
    }
    if !color {
        return text;
    }
    for tone in [Tone::Good, Tone::Mild, Tone::Bad, Tone::Dim] {
        if let Some(mark) = tone.mark() {
            text = text.replace(mark, tone.code());
        }
    }
    text.replace(RESET_MARK, RESET)
}

/// Text of others for a cell: also without the characters that stand for tones.
fn clean(text: &str, keep: Keep) -> String {
    let is_mark = |c: char| ('\u{2060}'..='\u{2064}').contains(&c);
    terminal::clean(text, keep).replace(is_mark, "")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows() -> Vec<Vec<Cell>> {
        vec![
            vec!["a".into(), Cell::state("dead"), 7.into()],
            vec!["long name".into(), Cell::state("completed"), "".into()],
        ]
    }

    #[test]
    fn columns_line_up_with_and_without_colour() {
        let plain = render(&["NAME", "STATE", "N"], rows(), false);
        assert_eq!(plain, "NAME       STATE      N\na          dead       7\nlong name  completed\n");
        let coloured = render(&["NAME", "STATE", "N"], rows(), true);
        assert!(coloured.contains("\x1b[31mdead\x1b[0m       7"), "{coloured:?}");
        let stripped =
            ["\x1b[31m", "\x1b[32m", RESET].iter().fold(coloured, |text, code| text.replace(code, ""));
        assert_eq!(stripped, plain);
    }

    #[test]
    fn what_others_wrote_cannot_steer_the_terminal() {
        let evil = vec![vec![Cell::from("x\x1b[2Jy\u{2062}z\u{202e}!")]];
        assert_eq!(render(&[], evil, true), "x [2Jyz\u{fffd}!\n");
    }

    #[test]
    fn a_result_reaches_a_pipe_as_it_is_and_a_terminal_without_what_steers_it() {
        let result = b"\x1b[31mred\x1b]0;pwned\x07\xe2\x80\xae\n";
        let output = |on_terminal| Output {
            json: false,
            quiet: false,
            on_terminal,
            stdout_color: false,
            stderr_color: false,
        };
        assert_eq!(output(false).shown(result), &result[..]);
        assert_eq!(output(true).shown(result), " [31mred ]0;pwned \u{fffd}\n".as_bytes());
    }

    #[test]
    fn long_texts_are_cut_in_lists() {
        let text = Cell::cut(&format!("line\n{}", "ä".repeat(100))).text;
        assert_eq!(text.chars().count(), CELL_CHARS_MAX + 1);
        assert!(text.starts_with("line ä") && text.ends_with('…'));
    }
}
