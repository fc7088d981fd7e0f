// One line for each check: what `cargo xtask interop` counts.

let failed = false;

export function report(name, error) {
  if (error === undefined) {
    console.log(`ok ${name}`);
    return;
  }
  failed = true;
  const reason = String(error?.message ?? error).replace(/\s+/g, ' ');
  console.log(`FAILED ${name}: ${reason}`);
}

/** Runs one check. What it throws is reported, and false returned: nothing after it makes sense. */
export async function check(name, body) {
  try {
    await body();
    report(name);
    return true;
  } catch (error) {
    report(name, error);
    return false;
  }
}

/** Ends the program: a server that hangs must not hold it. */
export function finish() {
  process.exit(failed ? 1 : 0);
}
