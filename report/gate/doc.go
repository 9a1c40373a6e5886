// Package gate writes the checks of a gate for pipelines: JUnit, SARIF and GitHub's workflow commands.
package gate
