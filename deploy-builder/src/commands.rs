//! What each way of calling it does.

use std::io::Write as _;
use std::path::Path;

use anyhow::Context as _;

use crate::args::{Build, Cli, Command};
use crate::build::{self, BuildError, Builder};
use crate::manifest::{self, Manifest, Packed};
use crate::metadata::{self, Workspace};
use crate::plan::{Function, Role, plan};
use crate::progress::Progress;
use crate::{flags, output, pack, routing, table, tools, verify};

impl Cli {
    pub fn execute(self) -> anyhow::Result<()> {
        let Command::Build(build) = self.command;
        let roles = roles()?;
        if let Some(folder) = &build.what.verify {
            let manifest = verify::verify(folder, roles)?;
            let count = manifest.functions.len();
            say(&format!(
                "{} is as it was built: {}",
                folder.display(),
                functions(count)
            ));
            return Ok(());
        }
        let (workspace, planned) = planned(&build, roles)?;
        match &build.what.out {
            Some(folder) => build_into(folder, &workspace, planned),
            None => {
                say(&table::shown(&planned));
                Ok(())
            }
        }
    }
}

/// The roles that make a deployment, as whoever builds asks for them.
fn roles() -> anyhow::Result<&'static [Role]> {
    #[cfg(feature = "split")]
    let roles = crate::split::roles().map_err(|wrong| crate::args::WrongCall(wrong.to_string()))?;
    #[cfg(not(feature = "split"))]
    let roles = &[Role::Foreground];
    Ok(roles)
}

fn planned(build: &Build, roles: &[Role]) -> anyhow::Result<(Workspace, Vec<Function>)> {
    let workspace = metadata::read(build.manifest_path.as_deref(), roles)?;
    let planned = plan(&workspace.packages, roles, build.arch)?;
    routing::prove(&planned.iter().collect::<Vec<_>>())?;
    Ok((workspace, planned))
}

fn build_into(folder: &Path, workspace: &Workspace, planned: Vec<Function>) -> anyhow::Result<()> {
    // Said now, not after minutes of building.
    output::check(folder)?;
    let arch = planned
        .first()
        .map(|function| function.arch)
        .context("nothing is planned")?;
    let tools = tools::find(&workspace.root, arch)?;
    for variable in build::ignored() {
        eprintln!("{variable} is set and not heeded: a deployment's flags are always the same");
    }
    let builder = Builder {
        workspace,
        tools: &tools,
        rustflags: flags::encoded(workspace, &tools.rust, arch).context("the packages can't be read")?,
    };
    let alone = build::alone(&workspace.target)?;
    let mut progress = Progress::new(planned.len());
    let (mut packed, mut contents) = (Vec::new(), Vec::new());
    for function in planned {
        progress.begin(&function.name);
        let program = builder.build(&function, &mut progress);
        progress.end();
        let program = program.inspect_err(said_by_cargo)?;
        let zip = pack::pack(&program).with_context(|| format!("{} can't be packed", function.file))?;
        contents.push((function.file.clone(), zip));
        packed.push(Packed::new(function, &contents[contents.len() - 1].1));
    }
    drop(alone);
    let manifest = Manifest::new(packed);
    contents.push((manifest::FILE.to_owned(), manifest.to_json()?.into_bytes()));
    output::write(folder, &contents)?;
    for (name, bytes) in &contents {
        say(&format!("{:>9} bytes  {}", bytes.len(), folder.join(name).display()));
    }
    Ok(())
}

/// A build's output is kept while it goes on, and matters if it failed.
fn said_by_cargo(error: &BuildError) {
    if let BuildError::Failed { output, .. } = error {
        eprint!("{output}");
    }
}

/// A reader that has gone is no reason to panic.
fn say(text: &str) {
    let _ = writeln!(std::io::stdout().lock(), "{text}");
}

fn functions(count: usize) -> String {
    match count {
        1 => String::from("1 function"),
        count => format!("{count} functions"),
    }
}
