//! What a store holds, for people.

use std::io::{self, Write};

use lockkeeper_consistent_region::archive::{CutSummary, CutVerdict, Overview};
use lockkeeper_consistent_region::manifest::{Manifest, ObjectRecord};

pub(crate) fn overview(to: &mut dyn Write, overview: &Overview, objects: bool) -> io::Result<()> {
    let record = &overview.record;
    writeln!(to, "store      {}", overview.location)?;
    writeln!(
        to,
        "region     {} (graph {:016x})",
        record.region, record.graph
    )?;
    let state = match (&record.failed, record.ended) {
        (Some(reason), _) => format!("failed: {reason}"),
        (None, true) => "ended".to_owned(),
        (None, false) => "to go on from its newest cut".to_owned(),
    };
    writeln!(to, "state      {state}")?;
    let terms: Vec<String> = overview.fences.iter().map(u64::to_string).collect();
    writeln!(
        to,
        "terms      {} wrote last; announced: {}",
        record.term,
        terms.join(" ")
    )?;
    match overview.lineage {
        Some(lineage) => writeln!(to, "lineage    {lineage}, whose epochs the terms are")?,
        None => writeln!(to, "lineage    none: no coordinator was elected")?,
    }
    writeln!(
        to,
        "resets     {} in all, {} since the last cut of {} that are allowed",
        record.attempt, record.consecutive_resets, record.allowed_resets
    )?;
    for (instance, worker) in record.placement.iter() {
        writeln!(to, "placed     {instance} on {worker}")?;
    }
    writeln!(
        to,
        "bytes      {} in all cuts and savepoints",
        overview.bytes
    )?;
    for cut in &overview.cuts {
        summary(to, &format!("cut {}", cut.seq), cut, objects)?;
    }
    if record.initial_state_retained {
        writeln!(
            to,
            "\ncut 0      the state before the first row may be restored as well"
        )?;
    }
    for kept in &overview.savepoints {
        writeln!(to, "\nsavepoint {:?}", kept.name)?;
        match (&kept.savepoint, &kept.fault) {
            (Some(savepoint), _) => manifest(to, &savepoint.manifest, objects)?,
            (None, fault) => writeln!(to, "  unreadable  {}", fault.as_deref().unwrap_or("?"))?,
        }
    }
    names(to, "objects that no cut names", &overview.unnamed)?;
    names(to, "objects of sources and sinks", &overview.beside)
}

fn summary(to: &mut dyn Write, title: &str, cut: &CutSummary, objects: bool) -> io::Result<()> {
    writeln!(to, "\n{title} (entry {})", cut.entry)?;
    match (&cut.manifest, &cut.fault) {
        (Some(found), _) => manifest(to, found, objects)?,
        (None, fault) => writeln!(to, "  unreadable  {}", fault.as_deref().unwrap_or("?"))?,
    }
    for source in &cut.positions {
        write!(
            to,
            "  position    {} at {}",
            source.instance, source.position
        )?;
        match source.changes {
            0 => writeln!(to)?,
            times => writeln!(
                to,
                "; rows count at least once: the source was changed {times} times"
            )?,
        }
    }
    Ok(())
}

fn manifest(to: &mut dyn Write, manifest: &Manifest, objects: bool) -> io::Result<()> {
    let bytes: u64 = manifest.parts().map(|object| object.length).sum();
    writeln!(
        to,
        "  published   by term {} in attempt {}, {} ms after 1970{}",
        manifest.term,
        manifest.attempt,
        manifest.published_at_ms,
        if manifest.last {
            "; the region's last"
        } else {
            ""
        }
    )?;
    writeln!(
        to,
        "  holds       {bytes} bytes in {} objects, {} staged outputs",
        manifest.parts().count(),
        manifest.tokens.len()
    )?;
    if objects {
        for object in manifest.parts() {
            line(to, object)?;
        }
        for token in &manifest.tokens {
            let back = if token.can_take_back { "can" } else { "can't" };
            writeln!(
                to,
                "  output      {} of cut {}: {back} be taken back",
                token.instance, token.seq
            )?;
        }
    }
    Ok(())
}

fn line(to: &mut dyn Write, object: &ObjectRecord) -> io::Result<()> {
    let ObjectRecord {
        instance,
        object: name,
        length,
        crc32,
        state_type,
        state_version,
        encoding,
        ..
    } = object;
    writeln!(
        to,
        "  object      {instance}: {name}, {length} bytes, crc32 {crc32:08x}, {state_type} version \
         {state_version}, {encoding:?}"
    )
}

fn names(to: &mut dyn Write, title: &str, names: &[String]) -> io::Result<()> {
    if names.is_empty() {
        return Ok(());
    }
    writeln!(to, "\n{title}:")?;
    names.iter().try_for_each(|name| writeln!(to, "  {name}"))
}

pub(crate) fn verdicts(to: &mut dyn Write, verdicts: &[CutVerdict]) -> io::Result<()> {
    for verdict in verdicts {
        let name = match &verdict.savepoint {
            Some(name) => format!("savepoint {name:?}"),
            None => format!("cut {}", verdict.seq),
        };
        let (objects, bytes) = (verdict.objects, verdict.bytes);
        match verdict.faults.as_slice() {
            [] => writeln!(to, "{name}: whole, {objects} objects, {bytes} bytes")?,
            faults => writeln!(to, "{name}: DAMAGED, {} faults", faults.len())?,
        }
        for fault in &verdict.faults {
            writeln!(to, "  {}: {}", fault.name, fault.what)?;
        }
    }
    Ok(())
}
