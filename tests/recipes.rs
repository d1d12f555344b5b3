//! The recipes for Spack, Docker, Apptainer, PyPI and a public forge: everything they name exists.
//!
//! Left out: running them, which needs tools that this project does not install.

use std::fs;
use std::path::Path;
use std::process::Command;

const ROOT: &str = env!("CARGO_MANIFEST_DIR");
const SPACK: &str = "packaging/spack/packages/raidshmem/package.py";
const RECIPES: [&str; 4] =
    [SPACK, "packaging/Dockerfile", "packaging/raidshmem.def", ".github/workflows/ci.yml"];

fn read(name: &str) -> String {
    fs::read_to_string(Path::new(ROOT).join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// Returns the words after `make` in the commands of a text.
fn made(text: &str) -> Vec<String> {
    let lines = text.lines().filter(|line| !line.trim_start().starts_with("#  "));
    let words = lines.map(|line| line.split_whitespace().collect::<Vec<_>>());
    let pairs = words.flat_map(|words| {
        let pairs = words.windows(2).filter(|pair| pair[0] == "make");
        pairs.map(|pair| pair[1].to_owned()).collect::<Vec<_>>()
    });
    pairs.collect()
}

#[test]
fn every_target_and_every_path_that_a_recipe_names_is_there() {
    let makefile = read("Makefile");
    let targets: Vec<&str> =
        makefile.lines().filter_map(|line| line.strip_prefix(".PHONY: ")).collect();
    let targets = targets.join(" ");
    let mut named = 0;
    for recipe in RECIPES {
        for target in made(&read(recipe)) {
            assert!(targets.split(' ').any(|known| known == target), "{recipe}: make {target}");
            named += 1;
        }
    }
    assert!(named >= 3, "recipes call make");
    assert!(read(SPACK).contains("make(\"install\", f\"PREFIX={prefix}\", \"BUILT="), "{SPACK}");
    assert!(read("packaging/Dockerfile").contains("-f packaging/Dockerfile"));
    assert!(read("packaging/raidshmem.def").contains("packaging/raidshmem.def"));
}

#[test]
fn versions_are_those_of_the_manifest() {
    let version = env!("CARGO_PKG_VERSION");
    let rust = env!("CARGO_PKG_RUST_VERSION");
    assert!(read(SPACK).contains(&format!("depends_on(\"rust@{rust}:\"")));
    assert!(read("debian/control").contains(&format!("cargo (>= {rust})")));
    assert!(read("debian/changelog").starts_with(&format!("raidshmem ({version}) ")));
    assert!(read("python/pyproject.toml").contains(&format!("version = \"{version}\"")));
    let module = read("python/src/raidshmem/__init__.py");
    assert!(module.contains(&format!("__version__ = \"{version}\"")));
    let notes = read("docs/release-notes.md");
    assert!(notes.contains(&format!("## {version}")), "docs/release-notes.md lacks {version}");
}

/// A tag that does not exist, and a crate that no registry has, cannot be fetched.
#[test]
fn everything_that_recipes_and_documents_fetch_exists() {
    let git = Command::new("git").args(["tag", "--list"]).current_dir(ROOT).output();
    let tags = git.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    let tags = tags.unwrap_or_default();
    for recipe in RECIPES {
        let text = read(recipe);
        let named = text.split("tag=\"").skip(1).filter_map(|rest| rest.split('"').next());
        for tag in named {
            assert!(tags.lines().any(|known| known == tag), "{recipe}: no tag {tag}");
        }
    }
    let pages = ["README.md", "CHANGELOG.md", "docs"].map(|name| Path::new(ROOT).join(name));
    let pages = pages.into_iter().flat_map(|page| match fs::read_dir(&page) {
        Ok(folder) => folder.flatten().map(|entry| entry.path()).collect(),
        Err(_) => vec![page],
    });
    for page in pages.filter(|page| page.extension().is_some_and(|kind| kind == "md")) {
        let text = fs::read_to_string(&page).expect("a document");
        let added = text.split("cargo add ").skip(1);
        for words in added.filter_map(|rest| rest.split('`').next()) {
            assert!(words.starts_with("--path"), "{}: cargo add {words}", page.display());
        }
    }
}

#[test]
fn a_program_in_rust_takes_the_crate_from_a_checkout() {
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join("takes-it");
    fs::create_dir_all(program.join("src")).expect("a folder below the target folder");
    let manifest = "[package]\nname = \"takes-it\"\nversion = \"0.0.0\"\n[workspace]\n";
    fs::write(program.join("Cargo.toml"), manifest).expect("a file below the target folder");
    fs::write(program.join("src/main.rs"), "fn main() {}\n").expect("a file next to it");
    let add = ["add", "--offline", "--quiet", "--path", ROOT];
    let output = Command::new(env!("CARGO")).args(add).current_dir(&program).output();
    let output = output.expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let manifest = fs::read_to_string(program.join("Cargo.toml")).expect("cargo wrote it");
    assert!(manifest.contains("[dependencies]\nraidshmem = { version = "), "{manifest}");
}

#[test]
fn the_recipe_for_spack_is_python() {
    let check = "import ast, sys; ast.parse(open(sys.argv[1]).read())";
    let status = Command::new("python3").args(["-c", check, SPACK]).current_dir(ROOT).status();
    assert!(status.expect("python3 is installed").success());
}

/// `make test-all` builds each crate from its package; this test covers the manifests.
#[test]
fn every_crate_has_the_metadata_of_a_registry() {
    let folders = ["", "codec/", "ucx-sys/", "rdma-sys/", "ofi-sys/"];
    let mut folders: Vec<String> = folders.map(String::from).into();
    let crates = fs::read_dir(Path::new(ROOT).join("crates")).expect("a folder").flatten();
    folders.extend(crates.map(|entry| format!("crates/{}/", entry.file_name().display())));
    for folder in folders {
        let manifest = read(&format!("{folder}Cargo.toml"));
        let has = |field: &str| manifest.lines().any(|line| line.starts_with(field));
        for field in ["description = ", "readme = ", "license"] {
            assert!(has(field), "{folder}Cargo.toml: {field}");
        }
        assert!(!has("publish"), "{folder}Cargo.toml: the others could not be published");
        assert!(!read(&format!("{folder}README.md")).is_empty());
    }
}
