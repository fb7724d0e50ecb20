//! The JSON schemas in `docs/schemas`, made from the types of the results.
//!
//! The names, types and descriptions of fields are those of the types. After a change of a result, this
//! writes the schemas anew:
//!
//! ```text
//! POVMETER_WRITE_SCHEMAS=1 cargo test -p povmeter-cli schemas
//! ```

use crate::{
    block_report::BlockReport,
    cache,
    chain_report::ChainReport,
    compare_report::CompareReport,
    compare_root_report::RootReport,
    db_report,
    diff::DiffReport,
    dry_run_report::DryRunReport,
    estimator_report::EstimatorReport,
    genesis::Genesis,
    output::{CommandResult, Printed},
    overlay, parallel, pool,
    record::RecordReport,
    replay_report::ReplayReport,
    scan, validation,
};
use schemars::{generate::SchemaSettings, transform::RecursiveTransform, JsonSchema, Schema};
use serde_json::Value;
use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

/// The schemas of all results, by file name.
fn schemas() -> BTreeMap<String, String> {
    BTreeMap::from([
        schema::<BlockReport>(),
        schema::<cache::Report>(),
        schema::<ChainReport>(),
        schema::<CompareReport>(),
        schema::<db_report::BackupReport>(),
        schema::<db_report::PruneReport>(),
        schema::<db_report::StatReport>(),
        schema::<db_report::VerifyReport>(),
        schema::<DiffReport>(),
        schema::<DryRunReport>(),
        schema::<EstimatorReport>(),
        schema::<Genesis>(),
        schema::<overlay::Report>(),
        schema::<parallel::Report>(),
        schema::<pool::Report>(),
        schema::<RecordReport>(),
        schema::<ReplayReport>(),
        schema::<RootReport>(),
        schema::<scan::ScanReport>(),
        schema::<validation::Report>(),
    ])
}

/// The file of a result, and the schema of what is printed.
fn schema<R: CommandResult + JsonSchema + 'static>() -> (String, String) {
    let settings = SchemaSettings::draft2020_12().for_serialize();
    let settings = settings.with_transform(RecursiveTransform(complete));
    let generator = settings.into_generator();
    let schema = generator.into_root_schema_for::<Printed<'static, R>>();
    // The fields of a reference would not count as known fields.
    assert!(
        schema.get("$ref").is_none(),
        "{}: not its own fields",
        R::COMMAND
    );
    let text = serde_json::to_string_pretty(&schema).unwrap();
    let name = format!("{}.json", R::COMMAND.replace(' ', "-"));
    (name, text + "\n")
}

/// Adds what holds for all results, and removes what only matters in Rust.
fn complete(schema: &mut Schema) {
    // The width of a number.
    schema.remove("format");
    if schema.get("properties").is_some() {
        schema.insert("additionalProperties".to_owned(), false.into());
    }
    // Sizes, counts and times.
    let is_number = match schema.get("type") {
        Some(Value::Array(types)) => types.iter().any(|name| name == "number"),
        Some(name) => name == "number",
        None => false,
    };
    if is_number && schema.get("minimum").is_none() {
        schema.insert("minimum".to_owned(), 0.into());
    }
    if let Some(Value::String(description)) = schema.get_mut("description") {
        *description = description.replace('\n', " ");
    }
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/schemas")
}

#[test]
fn schemas_are_those_of_the_types() {
    let (folder, schemas) = (folder(), schemas());
    if std::env::var_os("POVMETER_WRITE_SCHEMAS").is_some() {
        for (name, schema) in &schemas {
            fs::write(folder.join(name), schema).unwrap();
        }
    }
    for (name, schema) in &schemas {
        let found = fs::read_to_string(folder.join(name)).unwrap_or_default();
        assert!(
            *schema == found,
            "docs/schemas/{name} is not the schema of the program's type. Write it anew:\n  \
             POVMETER_WRITE_SCHEMAS=1 cargo test -p povmeter-cli schemas"
        );
    }
    let files = fs::read_dir(&folder).unwrap();
    let files = files.map(|file| file.unwrap().file_name().into_string().unwrap());
    let unknown: Vec<_> = files.filter(|name| !schemas.contains_key(name)).collect();
    assert!(unknown.is_empty(), "of no result: {unknown:?}");
}
