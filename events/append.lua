-- What every script that changes a status begins with (events.Lua prepends it):
-- the one way to append to a topic's log and publish the copy, in one step.
--
-- Gives three local functions:
--   now_ms()                     Redis time in ms, a number; one time for a script
--   last(log_key)                newest transition: table name -> string, and its
--                                seq as a number; nil and 0 when there is none
--   append(log_key, live_channel, fields, ttl_ms)
--                                ttl_ms: number or string; fields: table name -> string,
--                                number or true, with
--                                at least status and job; '' and 0 and false are left
--                                out; seq, prev and at are set here. Returns the stored
--                                table (strings), or nil and 'illegal' when the status
--                                may not follow the newest one. An unknown name, or a
--                                missing status or job, is the script's own bug: error.
--
-- The log is a stream with entry id <seq>-0, trimmed to max_log and expiring ttl_ms
-- after the newest entry. The live copy is the stored table as a flat JSON object of
-- strings. log_key must be among the script's KEYS; the channel needs no slot. Numbers
-- are written as whole ones, exact to 2^53, since tostring() gives up at 1e14.
--
-- Nothing but append writes to a log, so what last() has read is not read again in
-- the same script; whoever calls it must not change it. What append alone needs is
-- made when it runs: most scripts find that they have nothing to say.
local now_ms, last, append
do
    local time
    local newest_of = {}

    local function stored(value)
        if value == nil or value == false or value == 0 then return '' end
        if value == true then return '1' end
        if type(value) == 'number' then return string.format('%.0f', value) end
        if value == '0' then return '' end
        return value
    end

    now_ms = function()
        if not time then
            local t = redis.call('TIME')
            time = tonumber(t[1]) * 1000 + math.floor(tonumber(t[2]) / 1000)
        end
        return time
    end

    last = function(log_key)
        local read = newest_of[log_key]
        if read then return read, tonumber(read.seq) end
        local newest = redis.call('XREVRANGE', log_key, '+', '-', 'COUNT', 1)[1]
        if not newest then return nil, 0 end
        local fields, pairs_ = {}, newest[2]
        for i = 1, #pairs_, 2 do fields[pairs_[i]] = pairs_[i + 1] end
        newest_of[log_key] = fields
        return fields, tonumber(fields.seq)
    end

    append = function(log_key, live_channel, fields, ttl_ms)
--TABLES
        for name in pairs(fields) do
            if not known[name] then error('append: unknown field ' .. tostring(name)) end
        end
        local status, job = stored(fields.status), stored(fields.job)
        if status == '' or job == '' then error('append: status and job are needed') end

        local newest, newest_seq = last(log_key)
        local from, relation = '', 'other'
        if newest then
            from = newest.status
            if newest.job == job then relation = 'same' end
        end
        if not may[from .. ' ' .. status .. ' ' .. relation] then
            local open_end = newest and newest.outcome == unresolved
            if not (open_end and may[from .. '? ' .. status .. ' ' .. relation]) then
                return nil, 'illegal'
            end
        end

        local now = now_ms()
        local at = stored(now)
        local seq = now > newest_seq and at or stored(newest_seq + 1)
        local set = { seq = seq, prev = newest and newest.seq or '', at = at }
        local entry, copy = {}, {}
        for _, name in ipairs(names) do
            local value = set[name]
            if value == nil then value = stored(fields[name]) end
            if value ~= '' then
                entry[#entry + 1] = name
                entry[#entry + 1] = value
                copy[name] = value
            end
        end
        redis.call('XADD', log_key, 'MAXLEN', '=', max_log, seq .. '-0', unpack(entry))
        redis.call('PEXPIRE', log_key, ttl_ms)
        redis.call('PUBLISH', live_channel, cjson.encode(copy))
        newest_of[log_key] = copy
        return copy
    end
end

