//! The .proto file must be readable by everyone's compiler, not only by ours.
//!
//! In a service, protoc takes a type name for the method of the same name, and then says that it is no message. Such a type is to
//! be written in full.

use std::path::Path;
use std::{fs, io};

const PROTO: &str = "crates/rpc/proto/tenure/v1/tenure.proto";

pub(crate) fn complaints(root: &Path) -> io::Result<Vec<String>> {
    // Its absence is complained of elsewhere.
    let text = fs::read_to_string(root.join(PROTO)).unwrap_or_default();
    let mut complaints = Vec::new();
    for (service, methods) in services(&text) {
        for method in &methods {
            for name in method.types.iter().filter(|name| methods.iter().any(|other| other.name == **name)) {
                complaints.push(format!(
                    "{PROTO}: {service}.{} has the type {name}, which protoc takes for the method {service}.{name}; write the type in \
                     full, with a dot before its package",
                    method.name
                ));
            }
        }
    }
    Ok(complaints)
}

struct Method<'a> {
    name: &'a str,
    types: Vec<&'a str>,
}

/// The services and their methods, each of which is on one line.
fn services(text: &str) -> Vec<(&str, Vec<Method<'_>>)> {
    let mut services: Vec<(&str, Vec<Method<'_>>)> = Vec::new();
    for line in text.lines().map(str::trim) {
        if let Some(rest) = line.strip_prefix("service ") {
            services.push((rest.trim_end_matches(['{', ' ']), Vec::new()));
        } else if let (Some(rest), Some((_, methods))) = (line.strip_prefix("rpc "), services.last_mut()) {
            let mut words = rest.split(['(', ')', ' ', ';', '{', '}']).filter(|word| !word.is_empty());
            let name = words.next().unwrap_or_default();
            methods.push(Method {
                name,
                types: words.filter(|word| !["stream", "returns"].contains(word)).collect(),
            });
        }
    }
    services
}

#[cfg(test)]
mod tests {
    use super::super::tree::Tree;
    use super::PROTO;
    use crate::fnv;

    fn complaints_of(proto: &str) -> Vec<String> {
        let code = format!("{}{}\n", fnv::HEADER, fnv::hex(proto.as_bytes()));
        let tree = Tree::good().with(PROTO, proto).with("crates/rpc/src/generated/tenure.v1.rs", &code);
        tree.complaints()
    }

    #[test]
    fn a_type_that_is_named_as_a_method_of_its_service_is_written_in_full() {
        let service = |types: &str| {
            format!(
                "service Workers {{\n  rpc Get(GetRequest) returns (Worker);\n  rpc Heartbeat{types};\n}}\nservice Others {{\n  rpc Beat(Heartbeat) returns (stream Get);\n}}\n"
            )
        };
        for types in ["(Heartbeat) returns (Answer)", "(stream Request) returns (stream Get)"] {
            let complaints = complaints_of(&service(types));
            assert!(
                matches!(&complaints[..], [one] if one.contains("Workers.Heartbeat has the type")),
                "{complaints:?}"
            );
        }
        assert_eq!(
            complaints_of(&service("(.tenure.v1.Heartbeat) returns (HeartbeatAnswer)")),
            [] as [&str; 0]
        );
    }
}
