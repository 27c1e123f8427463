//! The list of the program's components, in the JSON form of CycloneDX 1.5.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::VERSION;
use crate::steps::{StepFailure, cargo, output_of};

/// The packages that are linked into the program.
pub(super) struct Components {
    packages: BTreeMap<String, Value>,
    /// What each depends on.
    links: BTreeMap<String, Vec<String>>,
    /// The program's own.
    root: String,
    linked: BTreeSet<String>,
}

impl Components {
    pub(super) fn read() -> Result<Self, StepFailure> {
        let words =
            ["metadata", "--locked", "--format-version", "1", "--filter-platform", super::STATIC[0].1];
        let metadata: Value = serde_json::from_slice(&output_of(&mut cargo(&words))?).map_err(wrong)?;
        let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
        let id_of = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let packages: BTreeMap<String, Value> =
            list(&metadata["packages"]).into_iter().map(|package| (id_of(&package["id"]), package)).collect();
        let links: BTreeMap<String, Vec<String>> = list(&metadata["resolve"]["nodes"])
            .iter()
            .map(|node| {
                let normal = list(&node["deps"]).into_iter().filter(|dependency| {
                    list(&dependency["dep_kinds"]).iter().any(|kind| kind["kind"].is_null())
                });
                (id_of(&node["id"]), normal.map(|dependency| id_of(&dependency["pkg"])).collect())
            })
            .collect();
        let root =
            packages.iter().find(|(_, package)| package["name"] == "haul-cli").map(|(id, _)| id.clone());
        let root = root.ok_or_else(|| StepFailure("cargo metadata lists no haul-cli".to_owned()))?;
        let (mut linked, mut queue) = (BTreeSet::new(), vec![root.clone()]);
        while let Some(id) = queue.pop() {
            if linked.insert(id.clone()) {
                queue.extend(links.get(&id).into_iter().flatten().cloned());
            }
        }
        Ok(Self { packages, links, root, linked })
    }

    /// Returns the packages that others have written.
    pub(super) fn foreign(&self) -> impl Iterator<Item = &Value> {
        let linked = self.linked.iter().filter_map(|id| self.packages.get(id));
        // Packages of the workspace are in no registry.
        linked.filter(|package| package["source"].is_string())
    }
}

fn wrong(error: serde_json::Error) -> StepFailure {
    StepFailure(format!("cargo metadata: {error}"))
}

/// Lists the packages, and what each depends on.
pub(super) fn sbom(found: &Components, epoch: &str) -> Result<String, StepFailure> {
    let Components { packages, links, root, linked } = found;
    let reference = |id: &String| packages.get(id).map(reference_of).unwrap_or_default();
    let mut components: Vec<_> =
        linked.iter().filter(|id| *id != root).filter_map(|id| packages.get(id)).map(component).collect();
    components.sort_by_key(|component| component["bom-ref"].to_string());
    let mut dependencies: Vec<_> = linked
        .iter()
        .map(|id| {
            let on: BTreeSet<_> = links.get(id).into_iter().flatten().map(reference).collect();
            json!({"ref": reference(id), "dependsOn": on})
        })
        .collect();
    dependencies.sort_by_key(|dependency| dependency["ref"].to_string());
    let document = json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {
            "properties": [{"name": "SOURCE_DATE_EPOCH", "value": epoch}],
            "component": {
                "type": "application", "bom-ref": reference(root), "name": "haul", "version": VERSION,
            },
        },
        "components": components,
        "dependencies": dependencies,
    });
    serde_json::to_string_pretty(&document).map(|text| text + "\n").map_err(wrong)
}

fn reference_of(package: &Value) -> String {
    let [name, version] = ["name", "version"].map(|key| package[key].as_str().unwrap_or_default());
    format!("pkg:cargo/{name}@{version}")
}

fn component(package: &Value) -> Value {
    let reference = reference_of(package);
    let mut component = json!({
        "type": "library",
        "bom-ref": &reference,
        "name": &package["name"],
        "version": &package["version"],
    });
    if let Some(licence) = package["license"].as_str() {
        // Old packages have `/` for `OR`.
        component["licenses"] = json!([{"expression": licence.replace('/', " OR ")}]);
    }
    // Packages of the workspace are in no registry.
    if package["source"].is_string() {
        component["purl"] = json!(reference);
    }
    component
}
