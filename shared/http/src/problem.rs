//! Errors over HTTP: problem details with a stable code.
