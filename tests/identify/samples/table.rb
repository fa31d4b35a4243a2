require 'csv'

module Tides
  class Table
    include Enumerable

    def initialize(path)
      @rows = CSV.read(path, headers: true).map(&:to_h)
    end

    def each(&block)
      @rows.each(&block)
    end

    def highest
      max_by { |row| row['level'].to_f }
    end
  end
end

if __FILE__ == $PROGRAM_NAME
  table = Tides::Table.new(ARGV.fetch(0))
  puts "highest: #{table.highest}"
end
