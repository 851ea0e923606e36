//! Reads as much of a Cargo.toml as the layer rules need: the package's name and the names of its dependencies.

use std::path::Path;
use std::{fs, io};

/// What a manifest says.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Manifest {
    /// The package's name.
    pub(crate) name: String,
    /// What it depends on, in the order of the file.
    pub(crate) dependencies: Vec<Dependency>,
}

/// One direct dependency.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Dependency {
    /// The name it is used by.
    pub(crate) name: String,
    /// Only tests, examples and benches use it.
    pub(crate) is_dev: bool,
    /// The name stands for another package, which hides what is depended on.
    pub(crate) is_renamed: bool,
}

impl Manifest {
    /// Reads the file.
    pub(crate) fn read(path: &Path) -> io::Result<Self> {
        let text = fs::read_to_string(path)
            .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", path.display())))?;
        Ok(Self::parse(&text))
    }

    fn parse(text: &str) -> Self {
        let mut manifest = Manifest::default();
        let mut section = String::new();
        // How deep we are in an array or table that spans lines; what is in there is no key of the section.
        let mut depth = 0;
        for line in text.lines().map(|line| line.split('#').next().unwrap_or_default().trim()) {
            if depth == 0 && line.starts_with('[') {
                section = line.trim_matches(['[', ']']).to_owned();
                if let Some((_, name)) = section.rsplit_once("dependencies.") {
                    manifest.add(&section, name, false);
                }
                continue;
            }
            if depth == 0
                && let Some((key, value)) = line.split_once('=')
            {
                manifest.take(&section, key.trim(), value.trim());
            }
            depth += line.matches(['[', '{']).count() as i32 - line.matches([']', '}']).count() as i32;
        }
        manifest
    }

    fn take(&mut self, section: &str, key: &str, value: &str) {
        if section == "package" && key == "name" {
            self.name = value.trim_matches('"').to_owned();
        } else if section.ends_with("dependencies") {
            let name = key.split('.').next().unwrap_or_default().trim_matches('"');
            self.add(section, name, value.replace(' ', "").contains("package="));
        } else if section.contains("dependencies.") && key == "package" {
            self.dependencies.last_mut().expect("its section added it").is_renamed = true;
        }
    }

    fn add(&mut self, section: &str, name: &str, is_renamed: bool) {
        let is_dev = section.contains("dev-dependencies");
        self.dependencies.push(Dependency { name: name.to_owned(), is_dev, is_renamed });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_dependencies_in_every_form() {
        let manifest = Manifest::parse(
            r#"
            [package]
            name = "node" # the server
            version.workspace = true

            [features]
            default = ["fast"]

            [dependencies]
            model.workspace = true
            "bytes" = "1"
            tokio = { version = "1", features = [
                "rt", # name = "not this"
                "net",
            ] }
            alias = { package="rand", version = "0.10" }

            [target.'cfg(unix)'.dependencies]
            rustix = "1"

            [dependencies.hyper]
            version = "1"
            features = ["server"]

            [dependencies.other]
            package = "mio"

            [dev-dependencies]
            tempfile.workspace = true

            [build-dependencies]
            cc = "1"
            "#,
        );
        assert_eq!(manifest.name, "node");
        let found: Vec<(&str, bool, bool)> = manifest
            .dependencies
            .iter()
            .map(|found| (found.name.as_str(), found.is_dev, found.is_renamed))
            .collect();
        let expected = [
            ("model", false, false),
            ("bytes", false, false),
            ("tokio", false, false),
            ("alias", false, true),
            ("rustix", false, false),
            ("hyper", false, false),
            ("other", false, true),
            ("tempfile", true, false),
            ("cc", false, false),
        ];
        assert_eq!(found, expected);
    }
}
