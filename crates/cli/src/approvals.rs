//! `silica approvals`: lists the approvals of a running server, and approves or denies them.

use anyhow::{Context, Result, bail};
use clap::{Args, Subcommand};
use serde_json::{Value, json};

use crate::client::{Answer, Client, ServerArgs};
use crate::show;

/// The most characters of a text from the server that are shown on one line.
const TEXT_CHARACTERS_MAX: usize = 300;

/// Arguments of `silica approvals`.
#[derive(Debug, Args)]
pub(crate) struct ApprovalsArgs {
    #[command(subcommand)]
    action: Action,
    #[command(flatten)]
    server: ServerArgs,
    /// A key with the right to approve, or an admin key [default: SILICA_KEY]
    #[arg(long, global = true)]
    key: Option<String>,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// List pending approvals
    List {
        /// List decided ones too
        #[arg(long)]
        all: bool,
        /// Print one JSON object a line
        #[arg(long)]
        json: bool,
    },
    /// Show what an approval is about: code and the findings about it, or a host
    Show {
        /// The id, as in the list
        id: String,
    },
    /// Approve code, which then runs, or a connection, which is then made
    Approve {
        #[command(flatten)]
        decision: DecisionArgs,
        /// How far the approval of a connection reaches: once, to the sandbox or to all sandboxes of the
        /// key [default: once]
        #[arg(long, value_name = "SCOPE", value_parser = ["once", "sandbox", "key"])]
        scope: Option<String>,
    },
    /// Deny code or a connection
    Deny(DecisionArgs),
}

#[derive(Debug, Args)]
struct DecisionArgs {
    /// The id, as in the list
    id: String,
    /// The reason, for the owner of the code and for the audit log
    #[arg(long)]
    reason: Option<String>,
    /// The SHA-256 of the code you reviewed; the server rejects the decision about other code
    #[arg(long)]
    sha256: Option<String>,
    /// Print the approval as JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(arguments: ApprovalsArgs) -> Result<i32> {
    let client = Client::from_args(arguments.server, arguments.key)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        match arguments.action {
            Action::List { all, json } => list(&client, all, json).await?,
            Action::Show { id } => show_one(&client, &id).await?,
            Action::Approve { decision, scope } => {
                decide(&client, "approve", decision, scope).await?;
            }
            Action::Deny(decision) => decide(&client, "deny", decision, None).await?,
        }
        Ok(0)
    })
}

async fn list(client: &Client, all: bool, as_json: bool) -> Result<()> {
    let state = if all { "all" } else { "pending" };
    let answer = read(&client.get(&format!("/v1/approvals?state={state}")).await?, client)?;
    let approvals = answer["approvals"].as_array().context("the answer has no approvals")?;
    if as_json {
        return approvals.iter().try_for_each(show::line);
    }
    show::line(format_args!(
        "{:<24} {:<9} {:<17} {:<25} {:<5} {:<7} ABOUT",
        "ID", "STATE", "OWNER", "SANDBOX", "CELL", "KIND"
    ))?;
    for approval in approvals {
        let [id, state, owner, sandbox, cell, kind] =
            ["id", "state", "owner", "sandbox", "cell", "kind"].map(|name| text(approval, name));
        let about = about(approval);
        show::line(format_args!(
            "{id:<24} {state:<9} {owner:<17} {sandbox:<25} {cell:<5} {kind:<7} {about}"
        ))?;
    }
    Ok(())
}

/// Returns what an approval is about on one line: the host of a connection, or the rules that ask.
fn about(approval: &Value) -> String {
    if let Some(host) = place(approval) {
        return host;
    }
    let findings = approval["findings"].as_array().into_iter().flatten();
    let rules: Vec<String> = findings.map(|finding| text(finding, "rule")).collect();
    if rules.is_empty() { "-".to_owned() } else { rules.join(", ") }
}

/// Returns the host and port of a connection that waits; `None` for code.
fn place(approval: &Value) -> Option<String> {
    let connection = &approval["connection"];
    connection.is_object().then(|| {
        let port = connection["port"].as_u64().unwrap_or_default();
        format!("{}:{port}", text(connection, "host"))
    })
}

async fn show_one(client: &Client, id: &str) -> Result<()> {
    let approval = read(&client.get(&format!("/v1/approvals/{}", checked(id)?)).await?, client)?;
    let names = [
        "id",
        "kind",
        "state",
        "scope",
        "owner",
        "sandbox",
        "cell",
        "policy",
        "sha256",
        "created_at",
        "expires_at",
        "decided_by",
        "reason",
    ];
    for name in names.into_iter().filter(|name| !approval[*name].is_null()) {
        show::line(format_args!("{name:<11} {}", text(&approval, name)))?;
    }
    if let Some(place) = place(&approval) {
        show::line(format_args!("connection  {place}"))?;
    }
    for finding in approval["findings"].as_array().into_iter().flatten() {
        let [action, rule, why] = ["action", "rule", "why"].map(|name| text(finding, name));
        let line = &finding["line"];
        let column = &finding["column"];
        show::line(format_args!("finding     {line}:{column} {action}[{rule}]: {why}"))?;
    }
    if let Some(code) = approval["code"].as_str() {
        show::line("")?;
        for line in code.lines() {
            // Complete, but with control characters escaped.
            show::line(show::plain(line, usize::MAX))?;
        }
    }
    Ok(())
}

async fn decide(
    client: &Client,
    verb: &str,
    decision: DecisionArgs,
    scope: Option<String>,
) -> Result<()> {
    let path = format!("/v1/approvals/{}/{verb}", checked(&decision.id)?);
    let mut body = json!({"reason": decision.reason, "sha256": decision.sha256});
    if let Some(scope) = scope {
        body["scope"] = scope.into();
    }
    let approval = read(&client.post(&path, &body.to_string()).await?, client)?;
    if decision.json {
        return show::line(&approval);
    }
    let [id, state] = ["id", "state"].map(|name| text(&approval, name));
    say!("silica: {id} is {state}");
    Ok(())
}

/// Checks that an id has no characters with a meaning in a URL path.
fn checked(id: &str) -> Result<&str> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    if id.is_empty() || !id.bytes().all(plain) {
        bail!("{id:?} is not the id of an approval; list all with: silica approvals list");
    }
    Ok(id)
}

fn text(value: &Value, name: &str) -> String {
    show::plain(value[name].as_str().unwrap_or_default(), TEXT_CHARACTERS_MAX)
}

/// Returns the JSON of an answer, or the error that it reports.
fn read(answer: &Answer, client: &Client) -> Result<Value> {
    answer.json(200, client)
}
