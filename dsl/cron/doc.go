// Package cron reads cron expressions with the rules of Temporal's schedules, and says at which character one is wrong.
package cron
