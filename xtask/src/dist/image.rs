//! An OCI image layout with the static program: <https://github.com/opencontainers/image-spec/blob/main/image-layout.md>.

use std::fs;
use std::path::Path;

use anyhow::Result;
use serde_json::{Value, json};

use super::{Release, copy_tree, put, sha256, strip, tar, write};

/// The program starts as root, takes the capabilities that the container has, and becomes this user.
const PASSWD: &str =
    "root:x:0:0:root:/:/sbin/nologin\npantala:x:998:998:pantala network stack:/nonexistent:/sbin/nologin\n";
const GROUP: &str = "root:x:0:\npantala:x:998:\n";

/// Writes the layout as a folder.
pub(super) fn write_image(release: &Release, program: &Path, folder: &Path) -> Result<()> {
    println!("OCI image");
    let tree = release.work.join("image");
    put(program, &tree.join("usr/bin/pantala"), 0o755)?;
    strip(&tree.join("usr/bin/pantala"))?;
    write(&tree.join("etc/passwd"), PASSWD.as_bytes(), 0o644)?;
    write(&tree.join("etc/group"), GROUP.as_bytes(), 0o644)?;
    for place in ["etc/pantala", "run/pantala", "tmp"] {
        fs::create_dir_all(tree.join(place))?;
    }
    for licence in ["LICENSE-MIT", "LICENSE-APACHE"] {
        put(&crate::run::root().join(licence), &tree.join("usr/share/doc/pantala").join(licence), 0o644)?;
    }
    copy_tree(&release.manual.join("man"), &tree.join("usr/share/man"))?;
    let plain = release.work.join("layer.tar");
    let layer = release.work.join("layer.tar.gz");
    tar(release, &tree, ".", &layer)?;
    unpack(&layer, &plain)?;

    let layout = folder.join(format!("pantala-{}.oci", release.version));
    let layer = blob(&layout, &fs::read(&layer)?, "application/vnd.oci.image.layer.v1.tar+gzip")?;
    let config = config(release, &sha256(&fs::read(&plain)?));
    let config = blob(&layout, &serde_json::to_vec(&config)?, "application/vnd.oci.image.config.v1+json")?;
    let manifest = json!({
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": config,
        "layers": [layer],
    });
    let mut manifest =
        blob(&layout, &serde_json::to_vec(&manifest)?, "application/vnd.oci.image.manifest.v1+json")?;
    manifest["annotations"] = json!({"org.opencontainers.image.ref.name": release.version});
    let index = json!({"schemaVersion": 2, "manifests": [manifest]});
    write(&layout.join("index.json"), &serde_json::to_vec(&index)?, 0o644)?;
    write(&layout.join("oci-layout"), br#"{"imageLayoutVersion":"1.0.0"}"#, 0o644)
}

/// The digest of a layer's content is that of the archive before it was compressed.
fn unpack(from: &Path, to: &Path) -> Result<()> {
    let output = std::process::Command::new("gzip").args(["-d", "-c"]).arg(from).output()?;
    anyhow::ensure!(output.status.success(), "gzip: {}", String::from_utf8_lossy(&output.stderr));
    write(to, &output.stdout, 0o644)
}

fn config(release: &Release, layer: &str) -> Value {
    let architecture = if cfg!(target_arch = "aarch64") { "arm64" } else { "amd64" };
    let created = crate::run::capture({
        let mut date = std::process::Command::new("date");
        date.args(["-u", "-d", &format!("@{}", release.epoch), "+%Y-%m-%dT%H:%M:%SZ"]);
        date
    });
    json!({
        "created": created.unwrap_or_default().trim(),
        "architecture": architecture,
        "os": "linux",
        "config": {
            "Entrypoint": ["/usr/bin/pantala"],
            "Cmd": ["up"],
            "Env": ["PATH=/usr/bin"],
            "Volumes": {"/etc/pantala": {}, "/run/pantala": {}},
            "Labels": {
                "org.opencontainers.image.title": "pantala",
                "org.opencontainers.image.version": release.version,
                "org.opencontainers.image.licenses": "MIT OR Apache-2.0",
            },
        },
        "rootfs": {"type": "layers", "diff_ids": [format!("sha256:{layer}")]},
        "history": [{"created_by": "cargo xtask dist"}],
    })
}

/// Writes a blob under its digest, and answers its descriptor.
fn blob(layout: &Path, bytes: &[u8], media_type: &str) -> Result<Value> {
    let digest = sha256(bytes);
    write(&layout.join("blobs/sha256").join(&digest), bytes, 0o644)?;
    Ok(json!({"mediaType": media_type, "digest": format!("sha256:{digest}"), "size": bytes.len()}))
}
