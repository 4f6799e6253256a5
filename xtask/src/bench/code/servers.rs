//! Identical work over MCP: each server does what it supports, in the same tree.

use super::super::book::{Book, Measure};
use super::super::clock::milliseconds;
use super::super::mcp::{self, Call, peers};
use super::super::talk::Conversation;
use super::super::talk::pipe::Pipe;
use super::tree::{AFTER, BEFORE, PAGE, WIDE, text};
use super::{Code, Tree};
use crate::served::Served;
use anyhow::{Result, ensure};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::process::Command;

/// A server that works on the tree.
pub(crate) struct Worker {
    pub(crate) name: &'static str,
    pub(crate) settings: String,
    home: PathBuf,
    command: Box<dyn Fn() -> Command>,
    asked: Vec<Asked>,
}

/// The calls of one measure, in turn: an edit and its reversal.
struct Asked {
    task: Task,
    calls: Vec<Call>,
}

#[derive(Clone, Copy)]
enum Task {
    Read,
    List,
    Find,
    Edit,
    Status,
}

impl Task {
    fn measure(self) -> Measure {
        match self {
            Task::Read => Measure::CodeRead,
            Task::List => Measure::CodeList,
            Task::Find => Measure::CodeFind,
            Task::Edit => Measure::CodeEdit,
            Task::Status => Measure::CodeStatus,
        }
    }

    /// Checks that a response is complete: a shorter one would be faster.
    fn whole(self, tool: &str, result: &Value) -> Result<()> {
        let blocks = result["content"].as_array().into_iter().flatten();
        let shown: String = blocks.filter_map(|block| block["text"].as_str()).collect();
        match self {
            Task::Read => {
                ensure!(shown.len() >= PAGE, "{tool} shows {} bytes of {PAGE}", shown.len());
            }
            Task::List => {
                let names = shown.matches("entry_").count();
                ensure!(names >= WIDE, "{tool} shows {names} names of {WIDE}");
            }
            Task::Find => ensure!(shown.contains("file_00017.rs"), "{tool} finds nothing"),
            Task::Edit => {}
            Task::Status => ensure!(shown.contains("notes.txt"), "{tool} says: {shown}"),
        }
        Ok(())
    }
}

fn asked(task: Task, calls: impl Into<Vec<Call>>) -> Asked {
    Asked { task, calls: calls.into() }
}

/// The calls for Proctor's tools; only existing tools are called.
fn ours(tree: &Tree) -> Result<Vec<Asked>> {
    let path = |name: &str| Ok::<_, anyhow::Error>(text(&tree.path(name))?.to_owned());
    let page = path("page.rs")?;
    let edit =
        |old: &str, new: &str| json!({ "path": page, "edits": [{ "old": old, "new": new }] });
    Ok(vec![
        asked(Task::Read, [("read_file", json!({ "paths": [page] }))]),
        asked(Task::List, [("list_files", json!({ "path": path("wide")? }))]),
        asked(Task::Find, [("find_files", json!({ "globs": ["**/file_00017.rs"] }))]),
        asked(Task::Edit, [("edit_file", edit(BEFORE, AFTER)), ("edit_file", edit(AFTER, BEFORE))]),
        asked(Task::Status, [("git_status", json!({ "repo": path("")? }))]),
    ])
}

pub(crate) type Install = fn(&Code<'_>) -> Result<Worker>;

pub(crate) const WORKERS: &[(&str, Install)] =
    &[("server-filesystem", filesystem), ("mcp-server-git", git), (peers::COMMANDER, commander)];

fn filesystem(code: &Code<'_>) -> Result<Worker> {
    let (root, page) = (text(&code.tree.folder)?, code.tree.path("page.rs"));
    let program = peers::filesystem_of(code.scratch, &code.tree.folder)?;
    let edit = |old: &str, new: &str| json!({ "path": page, "edits": [{ "oldText": old, "newText": new }] });
    let asked = vec![
        asked(Task::Read, [("read_text_file", json!({ "path": page }))]),
        asked(
            Task::List,
            [("list_directory_with_sizes", json!({ "path": code.tree.path("wide") }))],
        ),
        asked(
            Task::Find,
            [("search_files", json!({ "path": root, "pattern": "**/file_00017.rs" }))],
        ),
        asked(Task::Edit, [("edit_file", edit(BEFORE, AFTER)), ("edit_file", edit(AFTER, BEFORE))]),
    ];
    worker(code, "server-filesystem", program, asked)
}

fn git(code: &Code<'_>) -> Result<Worker> {
    let program = peers::git_of(code.scratch, &code.tree.folder)?;
    let status = json!({ "repo_path": code.tree.folder });
    worker(code, "mcp-server-git", program, vec![asked(Task::Status, [("git_status", status)])])
}

fn commander(code: &Code<'_>) -> Result<Worker> {
    let commander = peers::Commander::install(code.scratch)?;
    let page = code.tree.path("page.rs");
    let edit =
        |old: &str, new: &str| json!({ "file_path": page, "old_string": old, "new_string": new });
    let asked = vec![
        asked(Task::Read, [("read_file", json!({ "path": page }))]),
        asked(
            Task::List,
            [("list_directory", json!({ "path": code.tree.path("wide"), "depth": 1 }))],
        ),
        asked(
            Task::Edit,
            [("edit_block", edit(BEFORE, AFTER)), ("edit_block", edit(AFTER, BEFORE))],
        ),
    ];
    let settings = commander.settings()?;
    let command = Box::new(move || commander.command());
    let worker = worker(code, peers::COMMANDER, peers::Program { settings, command }, asked)?;
    peers::Commander::settle_in(&worker.home, &[&code.tree.folder])?;
    Ok(worker)
}

fn worker(
    code: &Code<'_>,
    name: &'static str,
    program: peers::Program,
    asked: Vec<Asked>,
) -> Result<Worker> {
    let home = code.scratch.fresh(&format!("{name}-code"))?;
    let tools: Vec<&str> = asked.iter().map(|asked| asked.calls[0].0).collect();
    let settings = format!("{}: {}", program.settings, tools.join(", "));
    Ok(Worker { name, settings, home, command: program.command, asked })
}

impl Code<'_> {
    pub(crate) fn ask(&self, worker: &Worker, book: &mut Book) -> Result<()> {
        let pipe = Pipe::open((worker.command)(), &worker.home)?;
        let mut conversation = Conversation::begin(pipe)?;
        for asked in &worker.asked {
            self.measure(worker.name, &mut conversation, asked, book)?;
        }
        Ok(())
    }

    /// Tools that ours does not have yet are reported as not measured.
    pub(super) fn ask_ours(&self, who: &str, served: &Served, book: &mut Book) -> Result<()> {
        let pipe = Pipe::open(served.command(&["mcp"]), &served.home)?;
        let mut conversation = Conversation::begin(pipe)?;
        let listed = conversation.ask("tools/list", &json!({}))?.result;
        let has = |tool: &str| {
            let tools = listed["tools"].as_array().into_iter().flatten();
            tools.into_iter().any(|one| one["name"] == tool)
        };
        for asked in ours(self.tree)?.iter().filter(|asked| has(asked.calls[0].0)) {
            self.measure(who, &mut conversation, asked, book)?;
        }
        Ok(())
    }

    fn measure(
        &self,
        who: &str,
        conversation: &mut Conversation<Pipe>,
        asked: &Asked,
        book: &mut Book,
    ) -> Result<()> {
        let mut times = Vec::new();
        mcp::again(self.plan, || {
            // Each call once a round, so that an edit is always reversed.
            for (tool, arguments) in &asked.calls {
                let reply = conversation.call(tool, arguments)?;
                times.push(milliseconds(reply.time()));
                asked.task.whole(tool, &reply.result)?;
            }
            Ok(())
        })?;
        book.add(asked.task.measure(), who, mcp::median(&mut times));
        Ok(())
    }
}
