//! What every table must do, and what the store makes of it: one suite for the test double, the embedded server and
//! Amazon's DynamoDB Local.
//!
//! - `port`, `queries`: the table port
//! - `rows`, `transactions`, `answers`, `beginnings`: rows, rows with pages, answers, accepted runs
//! - `log`, `blobs`, `readers`: pages, what doesn't fit into them, and what readers get
//! - `lists`: indexes
//! - `keys`: API keys
//! - `damage`: whatever is stored, nothing panics

mod answers;
mod beginnings;
mod bench;
mod blobs;
mod damage;
mod keys;
mod lists;
mod log;
mod port;
mod queries;
mod readers;
mod rows;
mod servers;
mod transactions;

/// Each check is a test of its own on the test double and on the embedded server. DynamoDB Local takes long to start:
/// it gets all of them in one test, each with tables of its own.
macro_rules! suite {
    ($($module:ident: $($check:ident),+;)+) => {
        mod on_the_test_double {
            $($(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $check() {
                    crate::$module::$check(crate::bench::Bench::memory()).await;
                }
            )+)+
        }

        mod on_the_embedded_server {
            $($(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $check() {
                    let server = outlast_tests::embedded::Embedded::start();
                    crate::$module::$check(crate::bench::Bench::on(server.client()).await).await;
                }
            )+)+
        }

        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn on_dynamodb_local() {
            let server = outlast_tests::dynamodb_local::DynamoDbLocal::start();
            $($(
                println!("{}", stringify!($check));
                let client = server.client(&stringify!($check).replace('_', ""));
                crate::$module::$check(crate::bench::Bench::on(client).await).await;
            )+)+
        }
    };
}

suite! {
    port:
        nothing_is_there_at_first,
        a_put_where_something_stands_is_refused_with_it,
        a_put_without_condition_replaces_the_whole_item,
        an_update_changes_what_it_names,
        an_update_of_nothing_makes_an_item,
        a_version_is_compared,
        an_attribute_must_be_there,
        an_attribute_must_be_absent,
        an_attribute_must_be_this_text,
        a_number_must_be_reached,
        a_transaction_is_all_or_nothing,
        r31_a_cancelled_transaction_says_why_for_each_write,
        a_transaction_names_an_item_once,
        an_item_too_large_is_rejected,
        every_kind_of_value_comes_back,
        twenty_at_once_have_one_winner,
        requests_and_units_are_counted;
    queries:
        a_range_in_both_directions,
        a_limit_says_that_there_may_be_more,
        a_query_is_cut_at_a_megabyte_and_goes_on,
        an_index_holds_keys_of_items_that_have_its_attributes,
        an_index_has_no_consistent_reads;
    rows:
        a_row_comes_back_as_it_was_written,
        a_row_is_smaller_than_a_kilobyte,
        an_unknown_attribute_survives_an_update,
        a_write_at_another_version_is_refused_with_the_row,
        a_repeated_write_knows_itself,
        a_row_that_is_not_there_has_changed,
        twenty_claims_have_one_winner,
        a_write_id_must_be_fresh,
        a_newer_schema_is_left_alone,
        an_unreadable_row_is_postponed;
    transactions:
        row_and_page_are_written_together,
        a_changed_row_keeps_the_page_out,
        a_moved_tail_keeps_the_row_back,
        both_failed_is_a_changed_row,
        a_repeated_transaction_knows_itself,
        an_end_frees_the_thread,
        an_end_is_not_kept_back_by_a_strange_thread,
        twenty_transactions_have_one_winner;
    answers:
        row_answer_and_page_are_written_together,
        an_answer_without_a_page_and_one_with_an_error_come_back,
        what_keeps_an_answer_out_is_told_apart,
        twenty_answers_have_one_winner,
        evidence_stands_beside_the_answer;
    beginnings:
        a_run_begins_with_four_items,
        a_thread_has_one_live_run,
        r34_the_turn_decides_before_the_thread,
        r34_twenty_of_one_turn_start_one_run,
        e05_an_expired_turn_is_free_although_its_item_is_there,
        a_stopped_turn_lets_only_a_cancelled_run_in,
        a_stop_and_a_request_of_one_turn_at_once_have_one_order,
        a_thread_is_free_again_after_the_end,
        a_repeated_acceptance_knows_itself,
        names_can_not_forge_keys,
        names_that_can_not_be_keys_are_refused;
    log:
        every_kind_of_event_comes_back,
        the_same_page_again_has_landed,
        the_same_seq_with_other_bytes_collides,
        twenty_pages_for_one_place_have_one_winner,
        r35_a_log_of_several_queries_is_read_whole,
        the_end_and_the_page_of_a_seq_are_found,
        a_log_that_is_not_there_is_empty,
        a_page_of_a_newer_schema_is_left_alone;
    blobs:
        r30_large_results_come_back,
        r30_the_largest_input_and_value_come_back,
        r30_what_is_too_large_is_refused_before_any_write,
        many_payloads_that_are_too_large_together,
        a_page_that_fits_is_one_write,
        a_wrong_part_is_corrupt,
        a_missing_part_is_corrupt,
        a_large_page_in_a_transaction;
    readers:
        readers_get_the_events_as_they_were_written,
        events_of_unknown_kinds_reach_readers,
        e17_an_unreadable_page_is_one_placeholder,
        e17_an_unreadable_event_is_one_placeholder,
        e17_an_unreadable_end_still_ends,
        r35_readers_resume_at_every_digit;
    lists:
        runs_are_listed_newest_first_by_owner,
        a_cursor_is_checked,
        due_runs_are_found_in_their_shard,
        an_ended_run_is_due_no_more,
        a_row_that_can_not_be_read_is_left_out_of_the_list;
    keys:
        a_key_comes_back_as_it_was_made,
        a_removed_key_is_gone_at_once_and_for_good,
        keys_are_listed_the_oldest_first_and_are_no_runs,
        what_is_stored_of_a_key_is_judged,
        the_name_of_a_key_can_not_be_forged;
    damage:
        no_attribute_of_a_row_can_panic,
        no_attribute_of_a_page_can_panic,
        no_attribute_of_an_event_can_panic;
}
